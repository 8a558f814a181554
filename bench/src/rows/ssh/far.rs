//! Small verbs on a machine that is 20 ms away, there and back: each is one round trip, and little more.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use sandbox_core::file::{ReadRequest, StatManyRequest};
use sandbox_core::{Ctx, SandboxExt as _, SandboxPath};

use super::{MACHINE, open, ssh, theirs};
use crate::delay::{delayed, echo};
use crate::harness::time;
use crate::report::{Row, micros, ratio};
use crate::rows::placed::{compare, kept};
use crate::rows::{Place, Result};

const EACH_WAY: Duration = Duration::from_millis(10);
const BATCH: usize = 4;
/// What a verb may cost beside the round trip.
const MOST: Duration = Duration::from_millis(2);
const BAR: &str = "a round trip and at most 2 ms, p50";

pub(crate) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("far");
    std::fs::create_dir_all(&scratch)?;
    let config = scratch.join("ssh_config");
    let port = port().await?;
    let near = delayed(at(port), EACH_WAY)?;
    // Its key is known by the port that it has without a delay.
    let text = format!(
        "Host {MACHINE}\n  Port {}\n  HostKeyAlias [127.0.0.1]:{port}\nInclude {}\n",
        near.port(),
        theirs()?
    );
    std::fs::write(&config, text)?;
    let far = open(&scratch, &config).await?;
    let (path, ctx) = (SandboxPath::parse("four-kib")?, Ctx::new());
    let content: Vec<u8> = "0123456789abcde\n".repeat(256).into();
    let put = async || {
        let (taken, done) = time(far.sandbox.put(&ctx, path.clone(), content.clone().into())).await;
        done?;
        Ok(taken)
    };
    put().await?;
    let rows = vec![
        row("ssh, 20 ms away: exec true", async || {
            kept(&far.sandbox).await
        })
        .await?,
        row("ssh, 20 ms away: read of 4 KiB", async || {
            let (taken, content) =
                time(far.sandbox.read(&ctx, ReadRequest::new(path.clone()))).await;
            match content?.bytes.len() {
                4096 => Ok(taken),
                other => Err(format!("the file came back with {other} bytes").into()),
            }
        })
        .await?,
        row("ssh, 20 ms away: write of 4 KiB", put).await?,
        row("ssh, 20 ms away: stat", async || {
            let paths = vec![path.clone()];
            let (taken, found) = time(far.sandbox.stat_many(&ctx, StatManyRequest { paths })).await;
            found?;
            Ok(taken)
        })
        .await?,
    ];
    far.close().await;
    Ok(rows)
}

async fn row(name: &'static str, verb: impl AsyncFnMut() -> Result<Duration>) -> Result<Row> {
    let mut line = TcpStream::connect(delayed(echo()?, EACH_WAY)?)?;
    line.set_nodelay(true)?;
    let round_trip = async || {
        let (taken, done) = time(async {
            line.write_all(b".")?;
            line.read_exact(&mut [0])
        })
        .await;
        done?;
        Ok(taken)
    };
    let (ours, peer) = compare([BATCH, BATCH], verb, round_trip).await?;
    Ok(Row {
        row: name,
        ours: micros(ours),
        peer: Some(micros(peer)),
        ratio: ratio(ours.as_secs_f64(), peer.as_secs_f64()),
        bar: BAR,
        holds: ours <= peer + MOST,
    })
}

/// The port of the server.
async fn port() -> Result<u16> {
    let mut ask = ssh(theirs()?.as_ref());
    ask.args(["-G", MACHINE]).stdout(Stdio::piped());
    let said = ask.output().await?;
    let said = String::from_utf8(said.stdout)?;
    let port = said.lines().find_map(|line| line.strip_prefix("port "));
    Ok(port.ok_or("ssh does not say which port it is")?.parse()?)
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
