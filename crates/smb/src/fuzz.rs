//! Entry points for the fuzzers and the smoke test: names and patterns from clients. Not part of the public interface.

use crate::metadata::names::{
    Naming, Part, Pattern, component, folded, path_and_part, stream_to_wire, to_wire,
};

/// Parses arbitrary bytes as a UTF-16 path. Returns `false` if they are invalid.
///
/// # Panics
/// If a path escapes its share, or a name in it does not round-trip.
pub fn path(bytes: &[u8]) -> bool {
    let wire = units(bytes);
    let is_inside = |name: &[u8]| {
        !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
    };
    if let Ok((path, _)) = path_and_part(&wire, Naming::Posix) {
        assert!(path.iter().all(|name| is_inside(name)));
    }
    let Ok((path, part)) = path_and_part(&wire, Naming::Windows) else { return false };
    for name in &path {
        assert!(is_inside(name));
        let stored = to_wire(name, Naming::Windows).expect("a decoded name has a wire form");
        assert_eq!(component(&stored, Naming::Windows).as_ref(), Ok(name));
    }
    if let Part::Stream(name) = part {
        let stored = stream_to_wire(&name).expect("a decoded name has a wire form");
        assert!(!stored.is_empty() && wire.windows(stored.len()).any(|part| part == stored));
    }
    true
}

/// Encodes an arbitrary stored name. Returns `false` if it has no wire form.
///
/// # Panics
/// If the wire form is not a valid name.
pub fn stored(bytes: &[u8]) -> bool {
    let Some(wire) = to_wire(bytes, Naming::Windows) else { return false };
    let is_self = bytes == b"." || bytes == b"..";
    assert!(
        is_self
            || wire
                .iter()
                .all(|unit| !matches!(unit, 0x22 | 0x2a | 0x3a | 0x3c | 0x3e | 0x3f | 0x5c | 0x7c | 0..0x20))
    );
    assert!(is_self || !matches!(wire.last(), Some(0x20 | 0x2e)));
    assert_eq!(folded(&folded(&wire)), folded(&wire));
    true
}

/// Matches a name against a pattern; the first byte is the pattern's length. Returns `false` without a match.
///
/// # Panics
/// If a pattern without wildcards matches another name, or `*` does not match.
pub fn pattern(bytes: &[u8]) -> bool {
    let Some((&length, bytes)) = bytes.split_first() else { return false };
    let wire = units(bytes);
    let (pattern, name) = wire.split_at(usize::from(length).min(wire.len()));
    let Some(parsed) = Pattern::new(pattern, Naming::Windows) else { return false };
    let matches = parsed.matches(name);
    assert!(!parsed.is_everything() || matches);
    assert!(!parsed.is_one_name() || matches == (folded(pattern) == folded(name)));
    assert!(Pattern::new(&[0x2a], Naming::Windows).is_some_and(|all| all.matches(name)));
    matches
}

fn units(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }

        fn unit(&mut self) -> u16 {
            const ODD: [u16; 22] = [
                0, 1, 0x1f, 0x20, 0x22, 0x2a, 0x2e, 0x2f, 0x3a, 0x3c, 0x3e, 0x3f, 0x5c, 0x7c, 0xd800, 0xdbff,
                0xdc00, 0xdfff, 0xf001, 0xf026, 0xf028, 0xf029,
            ];
            match self.next() % 4 {
                0 => ODD[usize::try_from(self.next()).unwrap() % ODD.len()],
                1 => u16::try_from(self.next() & 0xffff).unwrap(),
                _ => u16::try_from(0x61 + self.next() % 4).unwrap(),
            }
        }

        fn text(&mut self, most: u64) -> Vec<u8> {
            (0..self.next() % most).flat_map(|_| self.unit().to_le_bytes()).collect()
        }
    }

    const ROUNDS: usize = 20_000;

    fn accepted(mut next: impl FnMut(&mut Random) -> bool) -> usize {
        let mut random = Random(0x0bad_cafe);
        (0..ROUNDS).filter(|_| next(&mut random)).count()
    }

    #[test]
    fn paths_of_any_units() {
        let good = accepted(|random| path(&random.text(8)));
        assert!((1000..ROUNDS - 1000).contains(&good), "{good}");
    }

    #[test]
    fn names_of_any_bytes() {
        let good = accepted(|random| {
            let mut bytes = random.text(5);
            bytes.retain(|byte| *byte != 0 && *byte != b'/');
            // Lone surrogates in WTF-8, whole and truncated.
            if random.next().is_multiple_of(3) {
                bytes.extend(
                    [0xed, 0xa0, 0x80, 0x61].iter().take(usize::try_from(random.next() % 5).unwrap()),
                );
            }
            stored(&bytes)
        });
        assert!((1000..ROUNDS - 1000).contains(&good), "{good}");
    }

    #[test]
    fn patterns_of_any_units() {
        let matched = accepted(|random| {
            let mut bytes = vec![u8::try_from(random.next() % 4).unwrap()];
            bytes.extend(random.text(9));
            pattern(&bytes)
        });
        assert!((1000..ROUNDS - 1000).contains(&matched), "{matched}");
    }
}
