//! Matching of texts with patterns of words, in which `…` stands for unknown text.

/// Stands for any text up to the end of the line.
const ANYTHING: char = '…';

/// Whether the text contains the pattern. A space in the pattern matches any white space, including the end of a line.
/// `…` matches any text within a line. Commas between thousands are ignored.
pub(super) fn matches_pattern(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (normalize(text), normalize(pattern));
    let pieces: Vec<&str> = pattern.split(ANYTHING).map(str::trim).collect();
    let text: Vec<char> = text.chars().collect();
    (0..=text.len()).any(|start| starts_with_pieces(&text[start..], &pieces))
}

/// Whether the text begins with the first piece and contains the others after it, each on the line where the previous
/// one ended.
fn starts_with_pieces(text: &[char], pieces: &[&str]) -> bool {
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

/// Returns `None` if the text does not begin with `piece`.
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

/// White space as one character, the end of a line if it contains one, else a space; numbers without commas.
fn normalize(text: &str) -> String {
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

fn is_thousands(text: &str) -> bool {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()) == 3
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    const TEXT: &str = "Limits:   5,237 MiB/s\n  reads     380,000 IOPS, estimated\n  maximum\n| 1 | 2 |\n";

    #[test]
    fn words_match_across_spaces_and_line_breaks() {
        for pattern in ["Limits: 5,237 MiB/s", "estimated maximum", "237 MiB", "| 1 | 2 |", ""] {
            assert!(matches_pattern(TEXT, pattern), "{pattern}");
        }
        for pattern in ["5237 MiB/s", "380000", "380,000"] {
            assert!(matches_pattern(TEXT, pattern), "{pattern}");
        }
        for pattern in ["limits", "5,237MiB", "523,7", "maximum 380,000", "2 | |"] {
            assert!(!matches_pattern(TEXT, pattern), "{pattern}");
        }
    }

    #[test]
    fn an_ellipsis_matches_any_text_within_a_line() {
        for pattern in ["Limits … MiB/s", "reads … 380 … estimated maximum", "Limits … 5,237 …", "1 … 2"]
        {
            assert!(matches_pattern(TEXT, pattern), "{pattern}");
        }
        for pattern in ["Limits … IOPS", "estimated … Limits", "5,237 … 5,237", "1 … maximum"] {
            assert!(!matches_pattern(TEXT, pattern), "{pattern}");
        }
        // The first position is not the matching one.
        assert!(matches_pattern("size 1 large\nsize 2 small\n", "size … small"));
    }
}
