//! A line that takes its time: what is written to it arrives later by as much as a network would need.
//!
//! It is made of threads and not of a timer of the kernel's queues, which not every kernel has; a thread that sleeps is
//! late by some 60 us, which a round trip without anything else in it shows as well.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Begins to listen, and has all who connect speak with `to`, a while later each way. It goes on for as long as the
/// process does.
///
/// # Errors
///
/// What the system says.
pub(crate) fn delayed(to: SocketAddr, each_way: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else {
                continue;
            };
            // Whoever speaks finds out by itself that nobody is there.
            let _ = carry(&near, &far, each_way).and_then(|()| carry(&far, &near, each_way));
        }
    });
    Ok(address)
}

/// Begins to listen, and sends back whatever it gets.
///
/// # Errors
///
/// What the system says.
pub(crate) fn echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_nodelay(true);
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    Ok(address)
}

fn carry(from: &TcpStream, to: &TcpStream, later: Duration) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    to.set_nodelay(true)?;
    let (sent, under_way) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut chunk = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            if sent
                .send((Instant::now() + later, chunk[..read].to_vec()))
                .is_err()
            {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in under_way {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_twice_the_time_and_brings_everything() {
        let each_way = Duration::from_millis(20);
        let address = delayed(echo().expect("a port"), each_way).expect("a port");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let started = Instant::now();
        stream.write_all(b"there and back").expect("it is taken");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut back = String::new();
        stream.read_to_string(&mut back).expect("it comes");
        assert_eq!(back, "there and back");
        assert!(started.elapsed() >= 2 * each_way);
    }
}
