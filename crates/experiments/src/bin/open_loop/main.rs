//! Asks a service for keys at times that do not depend on its answers, some far more often than others.
//!
//! ```text
//! open_loop redis SOCKET KEYS BYTES REQUESTED EXPONENT RATE SECONDS SHIFT SEED
//! open_loop http=FOLDER SOCKET ...
//! open_loop postgres SOCKET ...
//! ```
//!
//! First KEYS get values of BYTES, half of each noise, and the line `ready` is printed. The keys of an
//! HTTP server are files in FOLDER, each of which is requested once before; those of PostgreSQL are the
//! primary key of a table. Only REQUESTED of them are read: the k-th most popular with a chance of k to
//! the power of -EXPONENT (Zipf's law). Popularity is spread over all memory. At SHIFT seconds the keys move up by half of
//! REQUESTED: the unpopular half becomes the popular one, and unread keys become the unpopular one.
//!
//! RATE requests a second arrive at random (a Poisson process), by SEED. A time is that from the
//! arrival to the last byte of the answer, so a request also waits for those before it. In the end a
//! line is printed for each: the second of its arrival, and the time in nanoseconds.

mod http;
mod postgres;
mod redis;
mod service;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use experiments::load::{Noise, gcd};

use http::Http;
use postgres::Postgres;
use redis::Redis;
use service::Service;

fn service(name: &str, socket: &str) -> io::Result<Box<dyn Service>> {
    Ok(match name.split_once('=') {
        None if name == "redis" => Box::new(Redis::open(socket)?),
        None if name == "postgres" => Box::new(Postgres::open(socket)?),
        Some(("http", folder)) => Box::new(Http::open(socket, folder.into())?),
        _ => {
            let expected = "expected redis, http=FOLDER, or postgres";
            return Err(io::Error::other(format!("{name}: unknown service, {expected}")));
        }
    })
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
    let numbers: Vec<f64> = words.iter().skip(2).filter_map(|word| word.parse().ok()).collect();
    let [keys, bytes, requested, exponent, rate, seconds, shift, seed] = numbers[..] else {
        eprintln!("open_loop SERVICE SOCKET KEYS BYTES REQUESTED EXPONENT RATE SECONDS SHIFT SEED");
        std::process::exit(2);
    };
    let (keys, bytes, requested) = (keys as u64, bytes as usize, requested as u64);
    let mut service = service(&words[0], &words[1])?;
    service.fill(keys, bytes)?;
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
        service.request(moved * stride % keys)?;
        let len = service.answer()?;
        assert!(len >= bytes, "an answer of {len} bytes, not {bytes}");
        times.push((due as u32, arrival.elapsed().as_nanos() as u32));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for (second, ns) in times {
        writeln!(out, "{second} {ns}")?;
    }
    out.flush()
}
