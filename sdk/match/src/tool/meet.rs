//! Whether two globs have a name in common.

use std::iter::zip;

/// Whether some name matches both globs.
pub(super) fn meet(a: &str, b: &str) -> bool {
    // Most globs part at their edges, which is told without a table.
    if edges_part(a.chars(), b.chars()) || edges_part(a.chars().rev(), b.chars().rev()) {
        return false;
    }
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // A row for each place in `a`, from its end, says for each place in `b` whether what is left of both has a name in
    // common. A row needs only the one made before it.
    let mut before: Vec<bool> = Vec::new();
    for at in (0..=a.len()).rev() {
        let mut row = vec![false; b.len() + 1];
        for place in (0..=b.len()).rev() {
            let past = |row: &[bool], place: usize| row.get(place).copied().unwrap_or_default();
            row[place] = match (a.get(at), b.get(place)) {
                (None, None) => true,
                // A `*` ends here, or swallows what the other glob has here.
                (Some('*'), _) | (_, Some('*')) => past(&before, place) || past(&row, place + 1),
                (Some(one), Some(other)) => is_shared(*one, *other) && past(&before, place + 1),
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        before = row;
    }
    before[0]
}

/// Whether two globs differ in a character that stands before any `*`.
fn edges_part(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> bool {
    zip(a, b).take_while(|(one, other)| *one != '*' && *other != '*').any(|(one, other)| !is_shared(one, other))
}

fn is_shared(one: char, other: char) -> bool {
    one == other || one == '?' || other == '?'
}
