//! Matching of names against patterns: FsRtlIsNameInExpression (MS-FSA §2.1.4.4).

use super::Naming;
use crate::limits::PATTERN_UNITS_MAX;

const STAR: u16 = 0x2a;
const QUESTION: u16 = 0x3f;
const DOT: u16 = 0x2e;
/// `<`: any number of characters up to the last period.
const DOS_STAR: u16 = 0x3c;
/// `>`: one character, or none before a period and at the end.
const DOS_QUESTION: u16 = 0x3e;
/// `"`: a period, or nothing at the end.
const DOS_DOT: u16 = 0x22;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// In the comparison form of names.
    units: Vec<u16>,
    naming: Naming,
}

impl Pattern {
    /// A client's pattern; `None` if it is too long.
    pub(crate) fn new(wire: &[u16], naming: Naming) -> Option<Self> {
        (wire.len() <= PATTERN_UNITS_MAX).then(|| Self { units: naming.compared(wire), naming })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.units == [STAR]
    }

    /// Whether at most one name matches.
    pub(crate) fn is_one_name(&self) -> bool {
        let is_wild = |unit: &u16| [STAR, QUESTION].contains(unit) || self.is_of_dos(*unit);
        !self.units.iter().any(is_wild)
    }

    /// In POSIX patterns the DOS wildcards are ordinary characters.
    fn is_of_dos(&self, unit: u16) -> bool {
        self.naming == Naming::Windows && [DOS_STAR, DOS_QUESTION, DOS_DOT].contains(&unit)
    }

    pub(crate) fn matches(&self, name: &[u16]) -> bool {
        if self.is_everything() {
            return true;
        }
        let name = self.naming.compared(name);
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        // The prefixes of the pattern that match the consumed part of the name.
        let mut reached = vec![false; self.units.len() + 1];
        reached[0] = true;
        self.skip_empty(&mut reached, name.first().copied());
        for (at, &unit) in name.iter().enumerate() {
            let mut next = vec![false; reached.len()];
            for (i, &pattern_unit) in self.units.iter().enumerate().filter(|(i, _)| reached[*i]) {
                match pattern_unit {
                    STAR => next[i] = true,
                    DOS_STAR if self.is_of_dos(pattern_unit) => {
                        if unit != DOT || last_dot.is_some_and(|last| at < last) {
                            next[i] = true;
                        } else {
                            // The last period ends the star, and may be part of it.
                            next[i + 1] = true;
                        }
                    }
                    QUESTION => next[i + 1] = true,
                    DOS_QUESTION if self.is_of_dos(pattern_unit) && unit != DOT => next[i + 1] = true,
                    DOS_DOT if self.is_of_dos(pattern_unit) && unit == DOT => next[i + 1] = true,
                    _ if pattern_unit == unit => next[i + 1] = true,
                    _ => {}
                }
            }
            reached = next;
            self.skip_empty(&mut reached, name.get(at + 1).copied());
        }
        reached[self.units.len()]
    }

    /// Advances past elements that match nothing before `next`.
    fn skip_empty(&self, reached: &mut [bool], next: Option<u16>) {
        for (i, &pattern_unit) in self.units.iter().enumerate() {
            let may_be_empty = match pattern_unit {
                STAR => true,
                unit if !self.is_of_dos(unit) => false,
                DOS_STAR => true,
                DOS_QUESTION => next.is_none_or(|unit| unit == DOT),
                DOS_DOT => next.is_none(),
                _ => false,
            };
            if reached[i] && may_be_empty {
                reached[i + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let wire = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        Pattern::new(&wire(pattern), Naming::Windows).unwrap().matches(&wire(name))
    }

    #[test]
    fn wildcards_match_like_windows() {
        for (pattern, name) in [
            ("*", "anything.at.all"),
            ("*.txt", "a.TXT"),
            ("a?c", "abc"),
            ("ABC", "abc"),
            ("*.*", "a.b"),
            ("<.txt", "a.b.txt"),
            ("<", "noext"),
            ("<.", "a."),
            ("a>>>", "ab"),
            (">>>>.txt", "ab.txt"),
            ("abc\"", "abc"),
            ("abc\"txt", "abc.txt"),
            ("<\"*", "abc"),
            ("<\"*", "a.b.c"),
            ("a*b*c", "axxbyyc"),
            ("", ""),
        ] {
            assert!(matches(pattern, name), "{pattern:?} {name:?}");
        }
        for (pattern, name) in [
            ("*.txt", "atxt"),
            ("a?c", "ac"),
            ("abc", "abcd"),
            ("*.*", "ab"),
            ("a>", "abc"),
            ("abc\"", "abcx"),
        ] {
            assert!(!matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn posix_pattern_is_case_sensitive_with_two_wildcards() {
        let wire = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let of = |pattern: &str| Pattern::new(&wire(pattern), Naming::Posix).unwrap();
        for (pattern, name) in [("A*", "Ab"), ("a?", "ab"), ("<x>", "<x>"), ("\"*", "\"q")] {
            assert!(of(pattern).matches(&wire(name)), "{pattern:?} {name:?}");
        }
        for (pattern, name) in [("A*", "ab"), ("<", "x"), (">", "x"), ("a\"", "a"), ("a\"b", "a.b")] {
            assert!(!of(pattern).matches(&wire(name)), "{pattern:?} {name:?}");
        }
        assert!(of("<>\"").is_one_name() && !of("a?").is_one_name());
    }

    #[test]
    fn pattern_with_many_wildcards_takes_linear_time() {
        let name = "a".repeat(255);
        assert!(!matches(&("*a".repeat(120) + "b"), &name));
        assert!(Pattern::new(&[0x2a; PATTERN_UNITS_MAX + 1], Naming::Windows).is_none());
    }
}
