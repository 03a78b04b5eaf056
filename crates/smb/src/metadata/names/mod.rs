//! Names: UTF-16 with backslashes on the wire, bytes in directories.
//!
//! Stored names are UTF-8; a lone surrogate is stored as WTF-8. Characters that Windows reserves map to the private use
//! area on the wire, as in macOS and cifs.ko ("SFM"). Names that are not valid text are hidden from clients.
//!
//! POSIX opens use Unix names ([`Naming::Posix`]): slashes, case-sensitive, with reserved characters unmapped. Mapped
//! characters are still decoded, since older Linux kernels send them.

pub(crate) mod locks;
mod pattern;

pub(crate) use pattern::Pattern;

use crate::limits::STREAM_UNITS_MAX;
use smb_wire::NtStatus;

/// Reserved characters and their substitutes on the wire.
const RESERVED: [(char, u16); 8] = [
    ('"', 0xf020),
    ('*', 0xf021),
    (':', 0xf022),
    ('<', 0xf023),
    ('>', 0xf024),
    ('?', 0xf025),
    ('\\', 0xf026),
    ('|', 0xf027),
];
/// The substitutes of a trailing blank and a trailing period.
const LAST_BLANK: u16 = 0xf028;
const LAST_PERIOD: u16 = 0xf029;
/// Precedes a literal character of the substitutes' range, so that it differs from a substitute on the wire.
const ESCAPE: u16 = 0xf02a;
const COLON: u16 = b':' as u16;
/// The only stream type.
pub(crate) const DATA: &str = "$DATA";
/// The base of the substitutes for control characters.
const CONTROL: u16 = 0xf000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Windows,
    Posix,
}

impl Naming {
    pub(crate) fn separator(self) -> u16 {
        match self {
            Self::Windows => u16::from(b'\\'),
            Self::Posix => u16::from(b'/'),
        }
    }

    /// Whether a character is not mapped.
    fn allows(self, c: char) -> bool {
        match self {
            Self::Windows => {
                c != '/' && u32::from(c) >= 0x20 && RESERVED.iter().all(|(reserved, _)| *reserved != c)
            }
            Self::Posix => c != '/' && c != '\0',
        }
    }

    fn compared(self, wire: &[u16]) -> Vec<u16> {
        match self {
            Self::Windows => folded(wire),
            Self::Posix => wire.to_vec(),
        }
    }
}

/// The part of a file that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The data of a file, named explicitly: "name::$DATA".
    Data,
    Stream(Vec<u8>),
}

/// Parses a path without a stream into names. The root has none.
pub(crate) fn path(wire: &[u16], naming: Naming) -> Result<Vec<Vec<u8>>, NtStatus> {
    match path_and_part(wire, naming)? {
        (path, Part::Whole | Part::Data) => Ok(path),
        (_, Part::Stream(_)) => Err(NtStatus::OBJECT_NAME_INVALID),
    }
}

/// Parses a path and its stream part. In POSIX names a colon is an ordinary character.
pub(crate) fn path_and_part(wire: &[u16], naming: Naming) -> Result<(Vec<Vec<u8>>, Part), NtStatus> {
    let colon = wire.iter().position(|&unit| unit == COLON).filter(|_| naming == Naming::Windows);
    let (path, part) = match colon {
        None => (wire, Part::Whole),
        Some(at) => (&wire[..at], part(&wire[at + 1..])?),
    };
    Ok((whole(path, naming)?, part))
}

fn whole(wire: &[u16], naming: Naming) -> Result<Vec<Vec<u8>>, NtStatus> {
    if wire.is_empty() {
        return Ok(Vec::new());
    }
    let separator = naming.separator();
    let wire = wire.strip_suffix(&[separator]).unwrap_or(wire);
    if wire.first() == Some(&separator) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    wire.split(|&unit| unit == separator).map(|name| component(name, naming)).collect()
}

pub(crate) fn component(wire: &[u16], naming: Naming) -> Result<Vec<u8>, NtStatus> {
    let dot = u16::from(b'.');
    if wire.is_empty() || wire == [dot] || wire == [dot, dot] {
        return Err(NtStatus::OBJECT_PATH_SYNTAX_BAD);
    }
    let mut bytes = Vec::with_capacity(wire.len());
    let mut units = char::decode_utf16(wire.iter().copied()).peekable();
    while let Some(unit) = units.next() {
        let stands_for_itself = |next: &Result<char, _>| next.as_ref().is_ok_and(|&next| is_substitute(next));
        let is_escape = unit.as_ref().is_ok_and(|&c| u32::from(c) == u32::from(ESCAPE));
        let escaped = if is_escape { units.next_if(stands_for_itself) } else { None };
        match escaped.map_or_else(|| unit.map(|c| stored(c, naming)), |escaped| escaped.map(Some)) {
            Ok(c) => push(&mut bytes, c.ok_or(NtStatus::OBJECT_NAME_INVALID)?),
            Err(lone) => bytes.extend(surrogate(lone.unpaired_surrogate())),
        }
    }
    // Substitutes for a trailing period decode to these names.
    if bytes == b"." || bytes == b".." {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    Ok(bytes)
}

/// Encodes a name for the wire; `None` if it is not valid text.
pub(crate) fn to_wire(name: &[u8], naming: Naming) -> Option<Vec<u16>> {
    if name == b"." || name == b".." {
        return encode_unmapped(name);
    }
    let mut wire = decoded(name, |wire, text| extend(wire, text, naming))?;
    if naming == Naming::Posix {
        return Some(wire);
    }
    if let Some(last) = wire.last_mut() {
        match *last {
            0x20 => *last = LAST_BLANK,
            0x2e => *last = LAST_PERIOD,
            _ => {}
        }
    }
    Some(wire)
}

/// Encodes bytes as UTF-16 without mapping; `None` if they are not valid text.
fn encode_unmapped(name: &[u8]) -> Option<Vec<u16>> {
    decoded(name, |wire, text| wire.extend(text.encode_utf16()))
}

/// Encodes bytes as UTF-16, and each piece of text by `extend`; `None` if the bytes are not valid text.
fn decoded(name: &[u8], extend: impl Fn(&mut Vec<u16>, &str)) -> Option<Vec<u16>> {
    let mut wire = Vec::with_capacity(name.len());
    let mut rest = name;
    while !rest.is_empty() {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                extend(&mut wire, text);
                rest = &[];
            }
            Err(error) => {
                let (text, more) = rest.split_at(error.valid_up_to());
                extend(&mut wire, std::str::from_utf8(text).ok()?);
                let (lone, more) = more.split_first_chunk::<3>()?;
                let lone = lone_surrogate(*lone)?;
                let is_half = |unit: &u16| (0xd800..0xdc00).contains(unit);
                if !is_half(&lone) && wire.last().is_some_and(is_half) {
                    // The two surrogates would combine to a character, which is another name.
                    return None;
                }
                wire.push(lone);
                rest = more;
            }
        }
    }
    Some(wire)
}

pub(crate) fn folded(wire: &[u16]) -> Vec<u16> {
    let mut folded = Vec::with_capacity(wire.len());
    for unit in char::decode_utf16(wire.iter().copied()) {
        match unit {
            Ok(c) => folded.extend_from_slice(fold(c).encode_utf16(&mut [0; 2])),
            Err(lone) => folded.push(lone.unpaired_surrogate()),
        }
    }
    folded
}

/// Whether a name equals `folded`, ignoring case.
pub(crate) fn is_spelled(name: &str, folded: &[u16]) -> bool {
    char::decode_utf16(folded.iter().copied()).eq(name.chars().map(|c| Ok(fold(c))))
}

/// Folds a character to one character, so that names keep their length.
fn fold(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Parses the part after the first colon: "stream" or "stream:type" (MS-FSCC §2.1.5.3). The type must be that of data.
pub(crate) fn part(wire: &[u16]) -> Result<Part, NtStatus> {
    let never = [0, u16::from(b'\\'), u16::from(b'/')];
    let (name, kind) = match wire.iter().position(|&unit| unit == COLON) {
        None => (wire, None),
        Some(at) => (&wire[..at], Some(&wire[at + 1..])),
    };
    let is_data = kind.is_none_or(|kind| folded(kind) == DATA.encode_utf16().collect::<Vec<_>>());
    if !is_data || name.len() > STREAM_UNITS_MAX || name.iter().any(|unit| never.contains(unit)) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    match (name.is_empty(), kind) {
        (true, None) => Err(NtStatus::OBJECT_NAME_INVALID),
        (true, Some(_)) => Ok(Part::Data),
        (false, _) => Ok(Part::Stream(text(name))),
    }
}

/// Decodes UTF-16 without mapping.
fn text(wire: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(wire.len());
    for unit in char::decode_utf16(wire.iter().copied()) {
        match unit {
            Ok(c) => push(&mut bytes, c),
            Err(lone) => bytes.extend(surrogate(lone.unpaired_surrogate())),
        }
    }
    bytes
}

/// Encodes the name of a stream for the wire; `None` if it is not valid text.
pub(crate) fn stream_to_wire(name: &[u8]) -> Option<Vec<u16>> {
    encode_unmapped(name)
}

/// The stored form of a wire character; `None` if it is not allowed.
fn stored(c: char, naming: Naming) -> Option<char> {
    let unit = u16::try_from(u32::from(c)).ok();
    match unit {
        Some(0xf001..=0xf01f) => return char::from_u32(u32::from(c) - u32::from(CONTROL)),
        Some(LAST_BLANK) => return Some(' '),
        Some(LAST_PERIOD) => return Some('.'),
        _ => {}
    }
    if let Some((stands_for, _)) = RESERVED.iter().find(|(_, wire)| Some(*wire) == unit) {
        return Some(*stands_for);
    }
    naming.allows(c).then_some(c)
}

fn extend(wire: &mut Vec<u16>, text: &str, naming: Naming) {
    for c in text.chars() {
        let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == c && naming == Naming::Windows);
        match reserved {
            Some((_, on_wire)) => wire.push(*on_wire),
            None if u32::from(c) < 0x20 && naming == Naming::Windows => {
                wire.push(CONTROL + u16::try_from(u32::from(c)).unwrap_or(0));
            }
            None => {
                wire.extend(is_substitute(c).then_some(ESCAPE));
                wire.extend_from_slice(c.encode_utf16(&mut [0; 2]));
            }
        }
    }
}

/// Whether a character is a substitute or the escape on the wire.
fn is_substitute(c: char) -> bool {
    matches!(u32::from(c), 0xf001..=0xf02a)
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The WTF-8 encoding of a lone surrogate.
fn surrogate(unit: u16) -> [u8; 3] {
    let six = |shift: u16| u8::try_from(unit >> shift & 0x3f).unwrap_or(0);
    [0xe0 | u8::try_from(unit >> 12).unwrap_or(0), 0x80 | six(6), 0x80 | six(0)]
}

fn lone_surrogate([first, second, third]: [u8; 3]) -> Option<u16> {
    let is_one = first == 0xed && (0xa0..=0xbf).contains(&second) && (0x80..=0xbf).contains(&third);
    is_one.then(|| 0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn path_is_split_into_stored_names() {
        assert_eq!(path(&[], Naming::Windows), Ok(vec![]));
        assert_eq!(path(&wire("a\\bü"), Naming::Windows), Ok(vec![b"a".to_vec(), "bü".as_bytes().to_vec()]));
        assert_eq!(path(&wire("a\\"), Naming::Windows), Ok(vec![b"a".to_vec()]));
        assert_eq!(path(&wire("f::$data"), Naming::Windows), Ok(vec![b"f".to_vec()]));
        assert_eq!(
            path(&wire("f:s"), Naming::Windows),
            Err(NtStatus::OBJECT_NAME_INVALID),
            "a stream is no file"
        );
        assert_eq!(path(&wire("\\a"), Naming::Windows), Err(NtStatus::INVALID_PARAMETER));
        for bad in ["..", "a\\..\\b", ".", "a\\\\b"] {
            assert_eq!(path(&wire(bad), Naming::Windows), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD), "{bad}");
        }
        for bad in ["a/b", "a*", "a?", "<", "a|b", "a\u{1}", "a\0b", "\"", ":\\a"] {
            assert_eq!(path(&wire(bad), Naming::Windows), Err(NtStatus::OBJECT_NAME_INVALID), "{bad:?}");
        }
    }

    #[test]
    fn stream_name_follows_the_last_name_of_a_path() {
        let stream = |name: &str| Ok(Part::Stream(name.as_bytes().to_vec()));
        let part_of = |text: &str| path_and_part(&wire(text), Naming::Windows).map(|(_, part)| part);
        assert_eq!(part_of("a\\b:s"), stream("s"));
        assert_eq!(path_and_part(&wire("a\\b:s"), Naming::Windows).unwrap().0, [b"a", b"b"]);
        assert_eq!(part_of("f: \u{1}?*<s> .:$data"), stream(" \u{1}?*<s> ."), "all but three characters");
        assert_eq!(part_of(":s"), stream("s"), "of the root of the share");
        assert_eq!(part_of("f:$DATA"), stream("$DATA"));
        assert_eq!(part_of("f::$DATA"), Ok(Part::Data));
        assert_eq!(part_of("f:..:$DATA"), stream(".."));
        let long = "x".repeat(255);
        assert_eq!(part_of(&format!("f:{long}")), stream(&long));
        for bad in [
            "f:",
            "f:s:",
            "f:s:$DATA:",
            "f:s:x",
            "f::$INDEX_ALLOCATION",
            "f:a\\b",
            "f:a/b",
            "f:a\0",
            "a:s\\b",
        ] {
            assert_eq!(part_of(bad), Err(NtStatus::OBJECT_NAME_INVALID), "{bad:?}");
        }
        assert_eq!(part_of(&format!("f:{long}x")), Err(NtStatus::OBJECT_NAME_INVALID));
        let odd = [0x3f, 0xd800, 0xe000];
        let Ok(Part::Stream(stored)) = part(&odd) else { panic!("a stream") };
        assert_eq!(stream_to_wire(&stored).unwrap(), odd);
        assert_eq!(stream_to_wire(b"\xff"), None);
    }

    #[test]
    fn wire_name_cannot_leave_its_directory() {
        for bad in ["\u{f029}", ".\u{f029}", "\u{f029}\u{f029}"] {
            assert_eq!(component(&wire(bad), Naming::Windows), Err(NtStatus::OBJECT_NAME_INVALID), "{bad:?}");
        }
    }

    #[test]
    fn text_name_survives_the_wire() {
        for name in ["a", "a b", "what?", "a:b", "end ", "end.", "\u{1}\u{1f}", "\"*:<>?\\|", "𝒳y", "..."]
        {
            let on_wire = to_wire(name.as_bytes(), Naming::Windows).unwrap();
            assert!(
                on_wire.iter().all(|unit| !matches!(unit, 0x22 | 0x2a | 0x3a | 0x5c | 0..0x20)),
                "{name:?}"
            );
            assert_eq!(component(&on_wire, Naming::Windows), Ok(name.as_bytes().to_vec()), "{name:?}");
        }
        assert_eq!(to_wire(b"end.", Naming::Windows).unwrap().last(), Some(&LAST_PERIOD));
        let lone = [0xd800, 0x61, 0xdfff];
        let stored = component(&lone, Naming::Windows).unwrap();
        assert_eq!(to_wire(&stored, Naming::Windows).unwrap(), lone);
        assert_eq!(to_wire(b"\xff", Naming::Windows), None);
        assert_eq!(to_wire(b"a\xc3", Naming::Windows), None);
    }

    /// Combines a few characters with and without meaning on the wire.
    #[test]
    fn different_names_differ_on_the_wire() {
        let private =
            ['\u{f001}', '\u{f01f}', '\u{f020}', '\u{f022}', '\u{f028}', '\u{f029}', '\u{f02a}', '\u{f02b}'];
        let mut pieces: Vec<Vec<u8>> = private.iter().map(|c| c.to_string().into_bytes()).collect();
        pieces.extend(RESERVED.iter().map(|(c, _)| c.to_string().into_bytes()));
        pieces.extend([" ", ".", "a", "\u{1}", "\u{1f}", "𐐀"].map(|text| text.as_bytes().to_vec()));
        pieces.extend([surrogate(0xd801).to_vec(), surrogate(0xdc00).to_vec(), Vec::new()]);
        for naming in [Naming::Windows, Naming::Posix] {
            let mut wire_names = std::collections::HashMap::new();
            for (one, two, three) in pieces
                .iter()
                .flat_map(|one| pieces.iter().map(move |two| (one, two)))
                .flat_map(|(one, two)| pieces.iter().map(move |three| (one, two, three)))
            {
                let name = [&one[..], two, three].concat();
                if matches!(&name[..], b"" | b"." | b"..") {
                    continue;
                }
                let Some(wire) = to_wire(&name, naming) else { continue };
                assert_eq!(component(&wire, naming), Ok(name.clone()), "{wire:x?}");
                let other = wire_names.insert(wire, name.clone());
                assert!(other.is_none_or(|other| other == name), "{name:?}");
            }
            assert!(wire_names.len() > 10_000, "{}", wire_names.len());
        }
        let halves = [surrogate(0xd801), surrogate(0xdc00)].concat();
        assert_eq!(to_wire(&halves, Naming::Windows), None, "two halves would form another name");
    }

    #[test]
    fn posix_names_stay_unchanged() {
        let of = |text: &str| path_and_part(&wire(text), Naming::Posix);
        let whole =
            |names: &[&str]| Ok((names.iter().map(|name| name.as_bytes().to_vec()).collect(), Part::Whole));
        assert_eq!(of(""), whole(&[]));
        assert_eq!(of("a:b/<\\>?*|/"), whole(&["a:b", "<\\>?*|"]));
        assert_eq!(of(" x. "), whole(&[" x. "]), "blanks and periods are like others");
        assert_eq!(
            of("\u{1}\u{f022}\u{f026}\u{f029}"),
            whole(&["\u{1}:\\."]),
            "substitutes are decoded in POSIX names, too"
        );
        assert_eq!(of("/a"), Err(NtStatus::INVALID_PARAMETER));
        for bad in ["..", "a/../b", ".", "a//b"] {
            assert_eq!(of(bad), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD), "{bad}");
        }
        for bad in ["a\0b", "\u{f029}", ".\u{f029}"] {
            assert_eq!(of(bad), Err(NtStatus::OBJECT_NAME_INVALID), "{bad:?}");
        }
        assert_eq!(to_wire("a:\\b.".as_bytes(), Naming::Posix), Some(wire("a:\\b.")));
        assert_eq!(to_wire(b"\xff", Naming::Posix), None);
    }

    #[test]
    fn names_compare_case_insensitively() {
        assert_eq!(folded(&wire("Straße Ünî 𐐨")), folded(&wire("sTRAßE üNÎ 𐐀")));
        assert_ne!(folded(&wire("ss")), folded(&wire("ß")), "a name keeps its length");
    }
}
