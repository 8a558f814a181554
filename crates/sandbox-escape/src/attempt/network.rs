//! Whoever can be spoken to.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::{Tried, any, attempts, blocked, may};
use crate::attempt::processes::others;
use crate::call::call;
use crate::ground::Ground;

/// How long a service outside may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
const AF_VSOCK: i32 = 40;

attempts! {
    "N01" Arrival "reach a TCP service on the machine's loopback" "baseline" tcp;
    "N02" Answer "have a route to other machines" "baseline" route;
    "N03" Arrival "send a datagram to the machine's loopback" "names as a way out" udp;
    "N04" Arrival "reach an abstract socket of the machine" "CVE-2020-15257" abstract_socket;
    "N05" Answer "make a raw or packet socket" "baseline" |_| any(
        [(libc::AF_PACKET, libc::SOCK_RAW, 0x300), (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)],
        "kind", |(family, kind, protocol)| may(call!(libc::SYS_socket, family, kind, protocol), &[]));
    "N06" Answer "make a new interface" "rights over a network namespace" new_interface;
    "N07" Answer "make a socket to the hypervisor" "vsock is in no network namespace" |_| may(call!(libc::SYS_socket, AF_VSOCK, libc::SOCK_STREAM, 0), &[]);
    "N08" Answer "make a socket of a rare family" "the surface behind it" |_| any(
        [libc::AF_ALG, libc::AF_KEY, libc::AF_RDS, libc::AF_TIPC, libc::AF_CAN, libc::AF_XDP, 43],
        "family", rare);
    "N09" Answer "enter another process's network namespace" "network namespaces" enter_network;
    "N10" Arrival "reach a named socket outside of every root" "named sockets of a daemon" |ground| path_socket(&ground.socket, "N10");
    "N11" Arrival "reach a named socket that lies in the workspace" "a mount shows sockets too" |ground| path_socket(&ground.shared_socket, "N11");
    "N12" Arrival "the same with a datagram, which needs no connection" "a mount shows sockets too" datagram;
    "F32" Answer "reach a daemon that gives away the machine" "docker.sock" |_| any(
        ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
         "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/stdout"],
        "such socket", |path| { UnixStream::connect(path)?; Ok(format!("{path} answers")) });
    "K07" Answer "a packet socket in a network namespace of its own" "CVE-2020-14386" |_| in_own_network(|| may(call!(libc::SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, 0x300), &[]));
    "K08" Answer "the packet filter in a network namespace of its own" "CVE-2024-1086" |_| in_own_network(|| may(call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 12), &[]));
}

fn tcp(ground: &Ground) -> Tried {
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, ground.tcp);
    let mut stream = TcpStream::connect_timeout(&to.into(), PATIENCE)?;
    stream.write_all(b"N01")?;
    Ok("it was sent".into())
}

/// Names a receiver for datagrams that no machine has, and sends none.
fn route(_: &Ground) -> Tried {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
    Ok(format!("by {}", socket.local_addr()?.ip()))
}

fn udp(ground: &Ground) -> Tried {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.send_to(b"N03", (Ipv4Addr::LOCALHOST, ground.udp))?;
    Ok("it was sent".into())
}

fn abstract_socket(ground: &Ground) -> Tried {
    let to = SocketAddr::from_abstract_name(&ground.abstract_socket)?;
    UnixStream::connect_addr(&to)?.write_all(b"N04")?;
    Ok("it was sent".into())
}

fn path_socket(path: &Path, id: &str) -> Tried {
    UnixStream::connect(path)?.write_all(id.as_bytes())?;
    Ok("it was sent".into())
}

fn datagram(ground: &Ground) -> Tried {
    let path = ground.shared_socket.with_extension("datagrams");
    UnixDatagram::unbound()?.send_to(b"N12", path)?;
    Ok("it was sent".into())
}

fn rare(family: i32) -> Tried {
    any(
        [
            libc::SOCK_SEQPACKET,
            libc::SOCK_STREAM,
            libc::SOCK_DGRAM,
            libc::SOCK_RAW,
        ],
        "kind",
        |kind| {
            call!(libc::SYS_socket, family, kind, 0)?;
            Ok(format!("family {family}"))
        },
    )
}

/// Asks for a new interface, and reads whether the kernel would.
fn new_interface(_: &Ground) -> Tried {
    const ERROR: u16 = 2;
    // A header of 16 bytes, an empty description of 16, and a name without a kind: who may is told that the
    // kind is missing, and nothing is made.
    let mut message = Vec::new();
    message.extend(40_u32.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(0x605_u16.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 16]);
    message.extend(8_u16.to_ne_bytes());
    message.extend(libc::IFLA_IFNAME.to_ne_bytes());
    message.extend(b"spp\0");
    let socket = call!(
        libc::SYS_socket,
        libc::AF_NETLINK,
        libc::SOCK_RAW | libc::SOCK_CLOEXEC,
        0
    )?;
    let length = message.len();
    call!(libc::SYS_write, socket, &message[..], length)?;
    let mut room = [0_u8; 256];
    let size = room.len();
    call!(libc::SYS_read, socket, &mut room[..], size)?;
    let kind = u16::from_ne_bytes([room[4], room[5]]);
    let error = i32::from_ne_bytes([room[16], room[17], room[18], room[19]]);
    match (kind, error) {
        (ERROR, 0) => Ok("it was made".into()),
        (ERROR, refused) if -refused == libc::EPERM => {
            Err(std::io::Error::from_raw_os_error(libc::EPERM).into())
        }
        (ERROR, other) => Ok(format!(
            "permitted: {}",
            std::io::Error::from_raw_os_error(-other)
        )),
        _ => blocked("no answer"),
    }
}

fn enter_network(ground: &Ground) -> Tried {
    any(others(ground), "other process", |pid| {
        let of = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&of);
        may(call!(libc::SYS_setns, number, libc::CLONE_NEWNET), &[])
    })
}

fn in_own_network(attempt: impl Fn() -> Tried) -> Tried {
    let both = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    if let Err(error) = call!(libc::SYS_unshare, both) {
        return blocked(format_args!("no namespace: {error}"));
    }
    attempt()
}
