//! Whether a text shows what it should: a pattern of words, with `…` for what is not known beforehand.

/// What stands for anything up to the end of the line.
const ANYTHING: char = '…';

/// Whether the pattern's words are in the text. A space of the pattern is any white space of the text, also the end of a line;
/// `…` is anything within a line; commas between thousands are as good as none.
pub(super) fn shows(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (plain(text), plain(pattern));
    let pieces: Vec<&str> = pattern.split(ANYTHING).map(str::trim).collect();
    let text: Vec<char> = text.chars().collect();
    (0..=text.len()).any(|start| begins(&text[start..], &pieces))
}

/// Whether the text begins with the first piece, and has the others behind it, each on the line where the one before ended.
fn begins(text: &[char], pieces: &[&str]) -> bool {
    let Some((first, others)) = pieces.split_first() else { return true };
    let Some(mut rest) = without_prefix(text, first) else { return false };
    for piece in others {
        let line = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
        let found = (0..=line).find_map(|at| without_prefix(&rest[at..], piece));
        let Some(behind) = found else { return false };
        rest = behind;
    }
    true
}

/// What follows the piece with which the text begins.
fn without_prefix<'a>(text: &'a [char], piece: &str) -> Option<&'a [char]> {
    let mut rest = text;
    for wanted in piece.chars() {
        let (&found, behind) = rest.split_first()?;
        if found != wanted && !(wanted == ' ' && found == '\n') {
            return None;
        }
        rest = behind;
    }
    Some(rest)
}

/// White space as one character, the end of a line if it has one, else a space; numbers without commas.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let space = rest.len() - rest.trim_start().len();
        let (taken, behind) = rest.split_at(space.max(first.len_utf8()));
        let within_number = || plain.ends_with(|c: char| c.is_ascii_digit()) && is_thousands(behind);
        match space {
            0 if first == ',' && within_number() => {}
            0 => plain.push(first),
            _ => plain.push(if taken.contains('\n') { '\n' } else { ' ' }),
        }
        rest = behind;
    }
    plain
}

/// Whether the text begins with three digits and no more.
fn is_thousands(text: &str) -> bool {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()) == 3
}

#[cfg(test)]
mod tests {
    use super::shows;

    const TEXT: &str = "Limits:   5,237 MiB/s\n  reads     380,000 IOPS, estimated\n  maximum\n| 1 | 2 |\n";

    #[test]
    fn words_are_found_however_they_are_spaced_and_broken() {
        for pattern in ["Limits: 5,237 MiB/s", "estimated maximum", "237 MiB", "| 1 | 2 |", ""] {
            assert!(shows(TEXT, pattern), "{pattern}");
        }
        for pattern in ["5237 MiB/s", "380000", "380,000"] {
            assert!(shows(TEXT, pattern), "{pattern}");
        }
        for pattern in ["limits", "5,237MiB", "523,7", "maximum 380,000", "2 | |"] {
            assert!(!shows(TEXT, pattern), "{pattern}");
        }
    }

    #[test]
    fn an_ellipsis_is_anything_within_a_line() {
        for pattern in ["Limits … MiB/s", "reads … 380 … estimated maximum", "Limits … 5,237 …", "1 … 2"]
        {
            assert!(shows(TEXT, pattern), "{pattern}");
        }
        for pattern in ["Limits … IOPS", "estimated … Limits", "5,237 … 5,237", "1 … maximum"] {
            assert!(!shows(TEXT, pattern), "{pattern}");
        }
        // The first place need not be the right one.
        assert!(shows("size 1 large\nsize 2 small\n", "size … small"));
    }
}
