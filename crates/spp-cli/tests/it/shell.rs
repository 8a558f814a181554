//! `spp shell`, at a terminal that the test plays.

use rustix::process::{Signal, kill_process};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::support::{Place, check, children, eventually, runs, signal};
use crate::terminal::{Terminal, resize};

#[test]
fn a_shell_has_the_terminals_size_follows_it_and_gives_it_back() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    assert!(terminal.is_raw());
    terminal.type_in("stty size; tty | sed s/^/tty-/\n");
    terminal.expect("30 100");
    terminal.expect("tty-/dev/");
    resize(&terminal.keyboard, 41, 121);
    signal(&terminal.child, Signal::WINCH);
    // The change takes its own way; ask until it has arrived.
    terminal
        .type_in("until [ \"$(stty size)\" = '41 121' ]; do sleep 0.05; done; echo resi''zed\n");
    terminal.expect("resized");
    terminal.type_in("exit 3\n");
    assert_eq!(terminal.end(), (Some(3), true));
}

#[test]
fn ctrl_c_reaches_the_program_in_the_shell_and_not_spp() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    // Typed so that only the program's own output, not the echo of the keys, is what is waited for.
    terminal.type_in("sh -c \"echo st''arted; exec sleep 1000\"\n");
    terminal.expect("started");
    terminal.type_in("\x03");
    terminal.expect("> ");
    terminal.type_in("echo ali''ve\n");
    terminal.expect("alive");
    terminal.type_in("exit\n");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn much_output_is_shown_to_its_end() {
    let place = Place::new();
    let mut terminal = Terminal::open(
        &place,
        &[
            "shell",
            "--",
            "sh",
            "-c",
            "seq 1 300000; echo the-end; exit 9",
        ],
        "/bin/sh",
    );
    terminal.expect("299999\r\n300000\r\nthe-end");
    assert_eq!(terminal.end(), (Some(9), true));
}

#[test]
fn a_request_to_terminate_restores_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    signal(&terminal.child, Signal::TERM);
    let (code, restored) = terminal.end();
    assert!(restored, "the terminal was left raw");
    assert!(code.is_some_and(|code| code >= 128), "{code:?}");
}

#[test]
fn a_terminal_that_goes_away_ends_the_shell_and_what_runs_in_it() {
    let place = Place::new();
    let script = "trap '' HUP TERM; echo $$ > pids; while :; do sleep 1; done";
    let terminal = Terminal::open(&place, &["shell", "--", "sh", "-c", script], "/bin/sh");
    let pids = place.pids("pids", 1);
    let code = terminal.unplug();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(!runs(pids[0]), "the program in the shell was left");
}

#[test]
fn without_a_terminal_it_explains_itself() {
    let place = Place::new();
    let ended = place.spp(&["shell"]);
    check(&ended, 125, "");
    assert!(ended.stderr.contains("spp run"), "{}", ended.stderr);
}

#[test]
fn a_provider_that_crashes_gives_the_terminal_back() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    for provider in children(&terminal.child) {
        kill_process(provider, Signal::KILL).expect("it runs");
    }
    terminal.expect("signal 9 ended it");
    assert_eq!(terminal.end(), (Some(125), true));
}

#[test]
fn a_shell_that_was_stopped_takes_its_terminal_again() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell"], "/bin/sh");
    terminal.expect("> ");
    signal(&terminal.child, Signal::STOP);
    // As the shell does that spp was started from.
    let mut cooked = tcgetattr(&terminal.line).expect("its settings");
    cooked.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(&terminal.line, OptionalActions::Now, &cooked).expect("other settings");
    resize(&terminal.keyboard, 42, 142);
    signal(&terminal.child, Signal::CONT);
    eventually("the terminal is raw again", || terminal.is_raw());
    terminal
        .type_in("until [ \"$(stty size)\" = '42 142' ]; do sleep 0.05; done; echo resi''zed\n");
    terminal.expect("resized");
    terminal.type_in("exit\n");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn a_screen_that_stands_still_keeps_nothing_from_ending() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["shell", "--", "yes"], "/bin/sh");
    terminal.expect("y");
    terminal.look_away();
    let providers = children(&terminal.child);
    signal(&terminal.child, Signal::TERM);
    assert_eq!(terminal.end(), (Some(143), true));
    assert!(providers.into_iter().all(|pid| !runs(pid)));
}

#[test]
fn what_cannot_be_started_in_a_terminal_has_the_status_that_shells_give() {
    let place = Place::new();
    place.put("plain", "");
    for (program, code) in [("no-such-program-here", 127), ("./plain", 126)] {
        let mut terminal = Terminal::open(&place, &["shell", "--", program], "/bin/sh");
        // In colour, which is ours, and not escaped, as what others say is.
        terminal.expect("\u{1b}[1;31mspp:\u{1b}[0m failed to spawn");
        assert_eq!(terminal.end(), (Some(code), true));
    }
}
