//! Asks a Redis for keys at times that do not depend on its answers, some far more often than others.
//!
//! ```text
//! open_loop SOCKET KEYS BYTES REQUESTED EXPONENT RATE SECONDS SHIFT SEED
//! ```
//!
//! First KEYS are set to values of BYTES, half of each noise, and the line `ready` is printed. Only
//! REQUESTED of them are read: the k-th most popular with a chance of k to the power of -EXPONENT
//! (Zipf's law). Popularity is spread over all memory. At SHIFT seconds the keys move up by half of
//! REQUESTED: the unpopular half becomes the popular one, and unread keys become the unpopular one.
//!
//! RATE requests a second arrive at random (a Poisson process), by SEED. A time is that from the
//! arrival to the last byte of the answer, so a request also waits for those before it. In the end a
//! line is printed for each: the second of its arrival, and the time in nanoseconds.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use experiments::load::{Noise, gcd};

/// Requests that are under way together while keys are set.
const PIPELINE: u64 = 64;

/// A connection.
struct Redis {
    stream: BufReader<UnixStream>,
    line: String,
    body: Vec<u8>,
    noise: Noise,
}

impl Redis {
    fn open(socket: &str) -> io::Result<Redis> {
        let stream = BufReader::with_capacity(1 << 16, UnixStream::connect(socket)?);
        let noise = Noise(0x9e37_79b9_7f4a_7c15);
        Ok(Redis { stream, line: String::new(), body: Vec::new(), noise })
    }

    fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        Ok(self.line.trim_end())
    }

    /// Asks for a key.
    fn request(&mut self, key: u64) -> io::Result<()> {
        let key = format!("key:{key}");
        write!(self.stream.get_mut(), "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())
    }

    /// Reads the answer, and returns the length of the value.
    fn answer(&mut self) -> io::Result<usize> {
        let line = self.line()?;
        let len = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok());
        let len = len.ok_or_else(|| io::Error::other(format!("GET: {line}")))?;
        self.body.resize(len + 2, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(len)
    }

    /// Sets the keys `from..to` to values of `bytes`.
    fn fill(&mut self, from: u64, to: u64, bytes: usize) -> io::Result<()> {
        let mut value = vec![b' '; bytes];
        let mut text = Vec::new();
        for key in from..to {
            self.noise.fill(&mut value[..bytes / 2]);
            let key = format!("key:{key}");
            write!(text, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())?;
            text.extend_from_slice(&value);
            text.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&text)?;
        for _ in from..to {
            let line = self.line()?;
            assert_eq!(line, "+OK", "SET");
        }
        Ok(())
    }
}

/// Chances that add up: 1, 1 + 2^-exponent, and so on.
fn zipf(keys: u64, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |rank: u64| {
        sum += (rank as f64).powf(-exponent);
        sum
    };
    (1..=keys).map(add).collect()
}

/// A number in [0, 1).
fn share(noise: &mut Noise) -> f64 {
    (noise.next() >> 11) as f64 / (1u64 << 53) as f64
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<f64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [keys, bytes, requested, exponent, rate, seconds, shift, seed] = numbers[..] else {
        eprintln!("open_loop SOCKET KEYS BYTES REQUESTED EXPONENT RATE SECONDS SHIFT SEED");
        std::process::exit(2);
    };
    let (keys, bytes, requested) = (keys as u64, bytes as usize, requested as u64);
    let mut redis = Redis::open(&words[0])?;
    for from in (0..keys).step_by(PIPELINE as usize) {
        redis.fill(from, (from + PIPELINE).min(keys), bytes)?;
    }
    println!("ready");
    io::stdout().flush()?;
    // Otherwise each sleep takes 50 us longer than asked for.
    let _ = fs::write("/proc/self/timerslack_ns", "1");

    let stride = (keys as f64 * 0.618) as usize | 1;
    let stride = (stride..).find(|stride| gcd(*stride, keys as usize) == 1).unwrap_or(1) as u64;
    let chances = zipf(requested, exponent);
    let all = *chances.last().expect("at least one key");
    let mut noise =
        Noise(0x2545_f491_4f6c_dd1d ^ (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut times: Vec<(u32, u32)> = Vec::with_capacity((rate * seconds * 1.1) as usize);
    let (started, mut due) = (Instant::now(), 0.0);
    loop {
        due -= (1.0 - share(&mut noise)).ln() / rate;
        if due >= seconds {
            break;
        }
        let chance = share(&mut noise) * all;
        let rank = chances.partition_point(|sum| *sum < chance) as u64;
        let moved = if due < shift { rank } else { rank + requested / 2 };
        let arrival = started + Duration::from_secs_f64(due);
        sleep(arrival.saturating_duration_since(Instant::now()));
        redis.request(moved * stride % keys)?;
        let len = redis.answer()?;
        assert!(len >= bytes, "an answer of {len} bytes, not {bytes}");
        times.push((due as u32, arrival.elapsed().as_nanos() as u32));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for (second, ns) in times {
        writeln!(out, "{second} {ns}")?;
    }
    out.flush()
}
