//! Using up what others need too.
//!
//! Each is bounded here as well, so that a control which lets it go on harms nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::life::{leave_daemon, live};
use super::processes::states;
use super::{Abuse, Tried, any, attempts, blocked};
use crate::call::{copy, ignore, wait};
use crate::ground::Ground;

const MIB: usize = 1 << 20;

attempts! {
    "R01" Abuse(Abuse::Limit("processes = 64")) "start 600 processes" "fork bomb" many_processes;
    "R02" Abuse(Abuse::Limit("memory = '128MiB'")) "use 640 MiB of memory" "memory" much_memory;
    "R03" Abuse(Abuse::Limit("")) "fill shared memory" "bwrap gives half of the machine's" |_| fill(Path::new("/dev/shm"), 640);
    "R04" Abuse(Abuse::Limit("")) "write to what is neither the workspace nor a temporary directory" "bwrap has / and /dev in memory" |_| any(
        ["/", "/dev", "/run", "/etc", "/usr", "/home", "/var", "/opt"], "such directory", |path| fill(Path::new(path), 1));
    "R05" Abuse(Abuse::Limit("file-size = '16MiB'")) "write one file of 64 MiB" "disk" |_| fill(Path::new("."), 64);
    "R06" Abuse(Abuse::Limit("disk = '16MiB'")) "write 64 files of 1 MiB" "disk" many_files;
    "R07" Abuse(Abuse::Limit("file-size = '16MiB'")) "make a file that says it holds 8 TiB" "disk" sparse;
    "R08" Abuse(Abuse::Output) "write 200 MB of output" "memory of who reads it" |_| { write(200 * MIB, b"a line as programs print them\n") };
    "R09" Abuse(Abuse::EndlessOutput) "write without an end, and without a line's end" "memory of who reads it" |_| write(usize::MAX, b"x");
    "R10" Abuse(Abuse::Stubborn) "run on, and hear no polite signal" "time" |_| {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            ignore(signal);
        }
        live();
        Ok("it ran on".into())
    };
    "R11" Abuse(Abuse::HeldPipe) "keep the output open after the end" "time" |_| {
        copy(live)?;
        Ok("it is held open".into())
    };
    "R12" Abuse(Abuse::Daemon) "leave a process that belongs to nobody" "daemons" |_| {
        leave_daemon()?;
        Ok("it was left".into())
    };
    "R13" Abuse(Abuse::Limit("cpu = 0.1")) "use two processors" "busy loop" busy;
    "R14" Abuse(Abuse::Zombies) "leave 300 processes that nobody waits for" "process 1 of a container" zombies;
    "R16" Abuse(Abuse::Limit("processes = 64")) "leave the group that limits it" "control groups" super::mounts::leave_group;
    "R17" Abuse(Abuse::Limit("memory = '128MiB'")) "use 256 MiB of memory by a file that lies there" "memory that is no process's" |_| fill(Path::new("/dev/shm"), 256);
    "R15" Abuse(Abuse::Unreadable) "plant what has no end, or no content, for who reads it" "FIFOs, devices" plant;
}

fn many_processes(_: &Ground) -> Tried {
    const WANTED: usize = 600;
    let mut started = Vec::new();
    let mut kept = Ok(());
    for _ in 0..WANTED {
        match copy(live) {
            Ok(pid) => started.push(pid),
            Err(error) => {
                kept = Err(error);
                break;
            }
        }
    }
    for pid in started.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    match kept {
        Ok(()) => Ok(format!("{} were started", started.len())),
        Err(error) => blocked(format_args!("{} were started: {error}", started.len())),
    }
}

fn much_memory(_: &Ground) -> Tried {
    let mut held = Vec::new();
    for _ in 0..640 / 16 {
        let mut piece = vec![0_u8; 16 * MIB];
        piece.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        held.push(std::hint::black_box(piece));
    }
    Ok(format!("{} MiB", held.len() * 16))
}

/// Writes a file of some MiB into a directory, and removes it.
fn fill(directory: &Path, mebibytes: u64) -> Tried {
    // By its error, not by its end, where the kernel sends a signal for it.
    ignore(libc::SIGXFSZ);
    let path = directory.join(format!("spp-escape-{}", std::process::id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let piece = vec![1_u8; MIB];
    let written = (0..mebibytes).try_for_each(|at| file.write_all_at(&piece, at << 20));
    std::fs::remove_file(&path)?;
    written?;
    Ok(format!("{} took {mebibytes} MiB", directory.display()))
}

fn many_files(_: &Ground) -> Tried {
    std::fs::create_dir_all("many")?;
    let piece = vec![1_u8; MIB];
    let written = (0..64).try_for_each(|number| std::fs::write(format!("many/{number}"), &piece));
    std::fs::remove_dir_all("many")?;
    written?;
    Ok("64 MiB were written".into())
}

fn sparse(_: &Ground) -> Tried {
    ignore(libc::SIGXFSZ);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open("sparse")?;
    let made = file.set_len(8 << 40);
    std::fs::remove_file("sparse")?;
    made?;
    Ok("it says 8 TiB".into())
}

fn write(bytes: usize, piece: &[u8]) -> Tried {
    let block = piece.repeat(65_536 / piece.len());
    let mut output = std::io::stdout().lock();
    let started = Instant::now();
    let mut written = 0;
    // One that nobody ends does so by itself.
    while written < bytes && started.elapsed() < Duration::from_secs(30) {
        output.write_all(&block)?;
        written += block.len();
    }
    Ok(format!("{written} bytes"))
}

/// How much of the processors two busy processes have in three seconds.
fn busy(_: &Ground) -> Tried {
    const WALL: Duration = Duration::from_secs(3);
    let started = Instant::now();
    let spin = || while started.elapsed() < WALL {};
    let another = copy(spin)?;
    spin();
    wait(another);
    let used = cpu_seconds()?;
    // A tenth of one would be 0.3 s; a machine that others keep busy as well still gives more than this.
    let said = format!("{used:.2} s of processors in 3 s");
    if used > 0.6 { Ok(said) } else { blocked(said) }
}

/// What this process and those that it waited for have used.
fn cpu_seconds() -> Result<f64, super::Kept> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = stat
        .rsplit(')')
        .next()
        .into_iter()
        .flat_map(str::split_whitespace);
    // Behind the name: user and system time, of itself and of those it waited for.
    let used: f64 = ticks
        .skip(11)
        .take(4)
        .filter_map(|it| it.parse::<f64>().ok())
        .sum();
    let per_second =
        f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100));
    Ok(used / per_second)
}

fn zombies(_: &Ground) -> Tried {
    let dead = || states().filter(|state| *state == 'Z').count();
    let before = dead();
    for _ in 0..300 {
        let between = copy(|| {
            let _ = copy(|| ());
        })?;
        wait(between);
    }
    // Whoever waits does so soon.
    std::thread::sleep(Duration::from_millis(500));
    let left = dead().saturating_sub(before);
    if left > 100 {
        return Ok(format!("{left} of 300 are left"));
    }
    blocked(format_args!("{left} of 300 are left"))
}

fn plant(_: &Ground) -> Tried {
    for name in PLANTED {
        let _ = std::fs::remove_file(name);
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        "planted-fifo",
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )?;
    std::os::unix::fs::symlink("/dev/zero", "planted-zero")?;
    std::os::unix::fs::symlink("/proc/self/mem", "planted-memory")?;
    let sparse = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open("planted-sparse")?;
    sparse.set_len(1 << 40)?;
    Ok("they are there".into())
}

/// What is planted.
pub const PLANTED: [&str; 4] = [
    "planted-fifo",
    "planted-zero",
    "planted-memory",
    "planted-sparse",
];
