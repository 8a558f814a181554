//! `docs/writing-a-provider.md` shows code that is really in the example.

use std::path::PathBuf;

#[test]
fn every_piece_of_code_in_the_guide_is_in_the_example() {
    let repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let read = |path: &str| std::fs::read_to_string(repository.join(path)).expect(path);
    let files = ["provider.py", "wire.py", "files.py", "supervise.py"]
        .map(|file| read(&format!("examples/python-provider/{file}")));
    let guide = read("docs/writing-a-provider.md");
    let mut pieces = 0;
    for piece in guide.split("```python\n").skip(1) {
        let (piece, _) = piece.split_once("\n```").expect("a piece of code ends");
        let found = [0, 4, 8, 12, 16]
            .map(|indent| indented(piece, indent))
            .iter()
            .any(|piece| files.iter().any(|file| file.contains(piece)));
        assert!(found, "this is not in the example:\n{piece}");
        pieces += 1;
    }
    assert!(pieces > 10, "the guide shows {pieces} pieces of code");
}

/// As it stands in a file, where it is `indent` deeper.
fn indented(piece: &str, indent: usize) -> String {
    let lines = piece.lines().map(|line| match line {
        "" => String::new(),
        line => format!("{}{line}", " ".repeat(indent)),
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}
