//! Asks a Redis for keys, some far more often than others, at a steady rate.
//!
//! ```text
//! skewed SOCKET KEYS VALUE_BYTES RATE SECONDS
//! ```
//!
//! First every key is set, in random order of popularity, to a value that is half noise. Then RATE
//! keys a second are read: the k-th most popular with a chance that falls with k by Zipf's law.
//! Every ten seconds a line is printed: the time, then the 50th, 99th, 99.9th percentile and the
//! maximum of the response times in nanoseconds, and how many took more than 20 µs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use experiments::load::{Noise, Times, gcd};

/// Length of a tick of requests, in milliseconds.
const TICK_MS: u64 = 20;

/// A connection.
struct Redis(BufReader<UnixStream>);

impl Redis {
    /// A command and what is answered: a line, or the bytes that the line announces.
    fn ask(&mut self, words: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(len) = line.strip_prefix('$') else { return Ok(line.into_bytes()) };
        let len: usize = len.trim().parse().map_err(io::Error::other)?;
        let mut bytes = vec![0; len + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// Chances that add up: 1, 1 + 1/2, 1 + 1/2 + 1/3 and so on.
fn zipf(keys: u64) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect()
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [keys, value_bytes, rate, seconds] = numbers[..] else {
        eprintln!("skewed SOCKET KEYS VALUE_BYTES RATE SECONDS");
        std::process::exit(2);
    };
    let mut redis = Redis(BufReader::new(UnixStream::connect(&words[0])?));
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut value = vec![b' '; value_bytes as usize];
    for key in 0..keys {
        noise.fill(&mut value[..value_bytes as usize / 2]);
        let answer = redis.ask(&[b"SET", format!("key:{key}").as_bytes(), &value])?;
        assert_eq!(answer, b"+OK\r\n", "SET");
    }
    // The popular keys are spread over all memory.
    let stride = (keys as f64 * 0.618) as usize | 1;
    let stride = (stride..).find(|stride| gcd(*stride, keys as usize) == 1).unwrap_or(1) as u64;
    let chances = zipf(keys);
    let all = *chances.last().expect("at least one key");
    let mut times = Times::new();
    println!("s\tget50\tget99\tget999\tgetmax\tget20us");
    let started = Instant::now();
    for tick in 0..seconds * 1_000 / TICK_MS {
        for _ in 0..rate * TICK_MS / 1_000 {
            let chance = noise.next() as f64 / u64::MAX as f64 * all;
            let rank = chances.partition_point(|sum| *sum < chance) as u64;
            let key = rank * stride % keys;
            let asked = Instant::now();
            let answer = redis.ask(&[b"GET", format!("key:{key}").as_bytes()])?;
            times.add(asked.elapsed());
            assert_eq!(answer.len() as u64, value_bytes, "GET");
        }
        if (tick + 1) % (10_000 / TICK_MS) == 0 {
            println!("{}\t{}", (tick + 1) * TICK_MS / 1_000, times.print_and_clear());
        }
        let due = started + Duration::from_millis(TICK_MS) * (tick as u32 + 1);
        sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
