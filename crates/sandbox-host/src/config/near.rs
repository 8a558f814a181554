//! Near misses: what somebody probably meant to write.

/// The candidate closest to `word`, if it is close enough to be a slip of the hand: at most one
/// edit for every three characters, and never more than three.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let budget = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= budget)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits between two words, where a swap of neighbours counts as one (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    // A word this long is no slip of a key or a location, and the table is quadratic.
    const LONGEST: usize = 64;
    let from: Vec<char> = from.chars().take(LONGEST + 1).collect();
    let to: Vec<char> = to.chars().take(LONGEST + 1).collect();
    if from.len() > LONGEST || to.len() > LONGEST {
        return usize::MAX;
    }
    let width = to.len() + 1;
    let mut table = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..=to.len() {
            let at = |row: usize, column: usize| table[row * width + column];
            let best = if row == 0 || column == 0 {
                row + column
            } else {
                let same = from[row - 1] == to[column - 1];
                let mut best = (at(row - 1, column) + 1)
                    .min(at(row, column - 1) + 1)
                    .min(at(row - 1, column - 1) + usize::from(!same));
                if row > 1
                    && column > 1
                    && from[row - 1] == to[column - 2]
                    && from[row - 2] == to[column - 1]
                {
                    best = best.min(at(row - 2, column - 2) + 1);
                }
                best
            };
            table[row * width + column] = best;
        }
    }
    table[from.len() * width + to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_recognised_and_other_words_are_not() {
        let known = ["local", "devbox", "max_concurrent"];
        for (word, expected) in [
            ("locl", Some("local")),
            ("lcoal", Some("local")),
            ("Local", Some("local")),
            ("dev-box", Some("devbox")),
            ("max_concurent", Some("max_concurrent")),
            ("cloud", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"l".repeat(100_000), known), None);
    }
}
