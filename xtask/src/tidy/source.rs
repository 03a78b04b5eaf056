//! One Rust file, and the rules that need no other file.

/// Tests do not count.
const LINES_MAX: usize = 800;
/// The only files that may contain `unsafe`.
const UNSAFE_ROOMS: [&str; 4] = [
    "crates/posix/src/sys.rs",
    "crates/posix/src/sys/",
    "crates/ceph/src/ffi",
    "crates/gmac/src/wide/mod.rs",
];
/// The only file that creates files and directories with the standard library. A service has no umask, so
/// this file sets each mode.
const FILES_ROOM: &str = "crates/stable/src/files.rs";
/// Calls that create a file or directory, most of them with mode 0666 or 0777.
const MAKERS: [&str; 7] =
    ["fs::write", "fs::copy", "create_dir", "DirBuilder", "File::create", "File::options", "OpenOptions"];
/// Crates that lock with `vfs::sync`, and that module.
const UNPOISONED: [&str; 11] = [
    "crates/api/",
    "crates/ceph/",
    "crates/control/",
    "crates/identity/",
    "crates/nfs/",
    "crates/plimsoll/",
    "crates/posix/",
    "crates/smb/",
    "crates/storage/",
    "crates/transport/",
    "crates/vfs/",
];
const LOCKS_ROOM: &str = "crates/vfs/src/sync.rs";
const PROTOCOLS: &[&str] = &["nfs", "smb", "xdr", "rpc"];
const BACKEND: &[&str] = &["backend::", "dyn backend", "noderef", "dyn node"];
const CLOCKS: &[&str] = &["instant::now", "systemtime::now"];
const SURROUNDINGS: &[&str] = &[
    "std::fs",
    "std::net::tcp",
    "std::net::udp",
    "std::env",
    "std::process",
    "std::thread",
    "instant::now",
    "systemtime",
];
/// Lower-case words that source below a path must not contain. A path may be planned.
const SILENCES: [(&str, &[&str]); 14] = [
    ("crates/vfs/", PROTOCOLS),
    ("crates/vfs-testing/", PROTOCOLS),
    ("crates/transport/", PROTOCOLS),
    // Only backends see `vfs::backend`.
    ("crates/transport/src/", BACKEND),
    ("crates/nfs/src/", BACKEND),
    ("crates/smb/src/", BACKEND),
    ("crates/api/src/", BACKEND),
    ("crates/plimsoll/src/", BACKEND),
    // These crates are pure: time is an argument, and they do no I/O.
    ("crates/envelope/src/", SURROUNDINGS),
    ("crates/nfs-wire/src/", SURROUNDINGS),
    ("crates/smb-wire/src/", SURROUNDINGS),
    ("crates/xdr/src/", SURROUNDINGS),
    ("crates/vfs/src/claims/", CLOCKS),
    ("crates/vfs/src/volume/mod.rs", CLOCKS),
];

pub(super) struct Source<'a> {
    path: &'a str,
    text: &'a str,
    /// Comments are blanks.
    uncommented: String,
    /// Comments and the content of strings are blanks.
    code: String,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> Self {
        Self { path, text, uncommented: masked(text, false), code: masked(text, true) }
    }

    pub(super) fn uncommented(&self) -> &str {
        &self.uncommented
    }

    pub(super) fn into_code(self) -> String {
        self.code
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.macros();
        faults.extend(self.unsafe_code());
        faults.extend(self.attributes_without_reason());
        faults.extend(self.too_long());
        faults.extend(self.files_without_mode());
        faults.extend(self.broken_silences());
        faults.extend(self.tuple_parameters());
        faults.extend(self.poisoned_locks());
        faults
    }

    /// Clippy checks these macros in the workspace only; `fuzz` is outside.
    fn macros(&self) -> Vec<String> {
        let found = |name: &'static str| {
            let places = self.code.match_indices(name).map(|(at, _)| at);
            let whole = places.filter(|&at| !self.code[..at].ends_with(is_word));
            whole.map(move |at| self.fault(at, &format!("{name} in what is committed")))
        };
        ["todo!", "unimplemented!", "dbg!"].into_iter().flat_map(found).collect()
    }

    fn unsafe_code(&self) -> Vec<String> {
        if UNSAFE_ROOMS.iter().any(|room| self.path.starts_with(room)) {
            return Vec::new();
        }
        let words = words(&self.code).filter(|(_, word)| *word == "unsafe");
        words.map(|(at, _)| self.fault(at, "unsafe outside posix::sys, ceph::ffi and gmac::wide")).collect()
    }

    fn attributes_without_reason(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (at, _) in self.code.match_indices("#[").chain(self.code.match_indices("#![")) {
            let attribute = bracketed(&self.code[at..]);
            let silences = words(attribute).any(|(_, word)| word == "allow" || word == "expect");
            if silences && !words(attribute).any(|(_, word)| word == "reason") {
                faults.push(self.fault(at, "a lint is silenced without a reason"));
            }
        }
        faults
    }

    fn too_long(&self) -> Option<String> {
        let tests = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        let lines = self.text[..tests].lines().count();
        (lines > LINES_MAX)
            .then(|| format!("{}: {lines} lines before its tests; at most {LINES_MAX}", self.path))
    }

    fn files_without_mode(&self) -> Vec<String> {
        let is_product = self.path.starts_with("crates/") && self.path.contains("/src/");
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let is_test =
            self.path.contains("/tests/") || ["tests.rs", "testing.rs"].iter().any(|end| name.ends_with(end));
        if !is_product || is_test || self.path == FILES_ROOM {
            return Vec::new();
        }
        let end = self.code.find("#[cfg(test)]\nmod ").unwrap_or(self.code.len());
        let code = &self.code[..end];
        let whole = |&(at, maker): &(usize, &str)| {
            !code[..at].ends_with(is_word)
                && (maker == "create_dir" || !code[at + maker.len()..].starts_with(is_word))
        };
        let found = MAKERS.iter().flat_map(|maker| code.match_indices(maker)).filter(whole);
        found
            .map(|(at, maker)| {
                self.fault(at, &format!("{maker} outside of {FILES_ROOM}: the mode is not explicit"))
            })
            .collect()
    }

    /// A tuple pattern evades the limit on parameters, and does not name the pair.
    fn tuple_parameters(&self) -> Vec<String> {
        let code = &self.code;
        let functions = words(code).filter(|&(at, word)| word == "fn" && !code[at + 2..].starts_with('('));
        let tuples =
            functions.flat_map(|(at, _)| parameters(code, at)).filter(|&at| is_tuple_pattern(&code[at..]));
        tuples.map(|at| self.fault(at, "a parameter is a tuple pattern; name it, or take two")).collect()
    }

    fn poisoned_locks(&self) -> Vec<String> {
        if !UNPOISONED.iter().any(|room| self.path.starts_with(room)) || self.path == LOCKS_ROOM {
            return Vec::new();
        }
        let start = self.code.as_ptr() as usize;
        let imports = self.code.split("std::sync::").skip(1).flat_map(|rest| {
            let end = if rest.starts_with('{') { rest.find('}') } else { rest.find(|c| !is_word(c)) };
            words(&rest[..end.unwrap_or(0)])
                .map(move |(at, word)| (rest.as_ptr() as usize - start + at, word))
        });
        let locks = imports.filter(|(_, word)| ["Mutex", "RwLock", "Condvar", "PoisonError"].contains(word));
        locks
            .map(|(at, word)| self.fault(at, &format!("std's {word} is poisoned by a panic; use vfs::sync")))
            .collect()
    }

    fn broken_silences(&self) -> Vec<String> {
        let code = self.uncommented.to_ascii_lowercase();
        let broken = |(below, words): &(&str, &'static [&'static str])| {
            let room = below.trim_start_matches("crates/").trim_end_matches('/').replace("/src", "");
            let found = words.iter().flat_map(|word| code.match_indices(word));
            found
                .map(|(at, word)| self.fault(at, &format!("{room} speaks of \"{word}\"")))
                .collect::<Vec<_>>()
        };
        SILENCES.iter().filter(|(below, _)| self.path.starts_with(below)).flat_map(broken).collect()
    }

    fn fault(&self, at: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line_of(self.text, at))
    }
}

/// Counts from one.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Identifiers, keywords and numbers, each with its position.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - start, word))
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Macros of tests have patterns with strategies in place of types.
fn is_tuple_pattern(parameter: &str) -> bool {
    let mut depth = 0_u32;
    let end = parameter.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    parameter.starts_with('(') && end.is_some_and(|end| parameter[end + 1..].trim_start().starts_with(':'))
}

/// Positions where the parameters of the function at `at` begin.
fn parameters(code: &str, at: usize) -> Vec<usize> {
    let (mut angles, mut depth, mut places, mut begins) = (0_u32, 0_u32, Vec::new(), false);
    for (place, byte) in code.bytes().enumerate().skip(at) {
        if begins && !byte.is_ascii_whitespace() {
            begins = false;
            if byte != b')' {
                places.push(place);
            }
        }
        match byte {
            b'<' if depth == 0 => angles += 1,
            b'>' if depth == 0 && !code[..place].ends_with('-') => angles = angles.saturating_sub(1),
            b'(' | b'[' | b'{' if angles == 0 || depth > 0 => {
                depth += 1;
                begins = depth == 1 && byte == b'(';
            }
            b')' | b']' | b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            b',' if depth == 1 => begins = true,
            b';' if depth == 0 => break,
            _ => {}
        }
    }
    places
}

fn bracketed(text: &str) -> &str {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return &text[..=at],
            b']' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// Replaces comments by blanks, and the content of strings if `strings`; every byte keeps its position.
fn masked(text: &str, strings: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, blank) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (line_end(bytes, at), true),
            b'/' if bytes[at..].starts_with(b"/*") => (comment_end(bytes, at), true),
            b'"' => (string_end(bytes, at), strings),
            b'r' if raw_hashes(bytes, at).is_some() => (raw_end(bytes, at), strings),
            b'\'' => (char_end(bytes, at), strings && char_end(bytes, at) > at + 1),
            _ => (at + 1, false),
        };
        if blank {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Counts the hashes of a raw string that begins at `at`.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let inside =
        at > 0 && (bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'b' || bytes[at - 1] == b'_');
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (!inside && bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_end(bytes: &[u8], at: usize) -> usize {
    let hashes = raw_hashes(bytes, at).unwrap_or(0);
    let closing = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let from = at + hashes + 2;
    let found = bytes[from..].windows(closing.len()).position(|window| window == closing);
    found.map_or(bytes.len(), |length| from + length + closing.len())
}

/// The index after a character literal, or after the quote of a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes.get(at + 3..).unwrap_or_default().iter().position(|&byte| byte == b'\'');
        return close.map_or(bytes.len(), |length| at + 3 + length + 1);
    }
    let close = bytes[at + 1..].iter().take(5).position(|&byte| byte == b'\'');
    let one = |length: &usize| {
        str::from_utf8(&bytes[at + 1..at + 1 + length]).is_ok_and(|it| it.chars().count() == 1)
    };
    close.filter(one).map_or(at + 1, |length| at + 1 + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        Source::new(path, text).faults()
    }

    #[test]
    fn comments_and_strings_are_told_from_code() {
        let text = "a /* b /* c */ \" */ \"d\\\"e\" // f\nr#\"g\"h\"# b\"i\" 'j' '\\'' '\"' fn k<'l>() // \"";
        let expected =
            "a                   \"d\\\"e\"     \nr#\"g\"h\"# b\"i\" 'j' '\\'' '\"' fn k<'l>()     ";
        assert_eq!(masked(text, false), expected);
        let code: Vec<_> = masked(text, true).split_whitespace().map(String::from).collect();
        assert_eq!(code, ["a", "b", "fn", "k<'l>()"]);
    }

    #[test]
    fn left_over_macros_are_found() {
        assert_eq!(faults("a.rs", "fn a() {\n    todo!()\n}"), ["a.rs:2: todo! in what is committed"]);
        assert_eq!(faults("a.rs", "dbg!(1);").len(), 1);
        assert_eq!(faults("a.rs", "// todo!()\nlet a = \"dbg!\"; my_todo!();"), [""; 0]);
    }

    #[test]
    fn tuple_pattern_among_parameters_is_refused() {
        let taken = "fn a<F: Fn((u8, u8)) -> bool>(b: u8, (c, d): (u8, u8), e: (u8, u8)) {}";
        assert_eq!(faults("a.rs", taken), ["a.rs:1: a parameter is a tuple pattern; name it, or take two"]);
        assert_eq!(faults("a.rs", "fn a(b: fn((u8, u8))) -> bool { c.map(|(d, e)| d) }"), [""; 0]);
    }

    #[test]
    fn locks_are_never_poisoned() {
        let text =
            "use std::sync::{Arc, Mutex};\nuse std::sync::atomic::AtomicU8;\nlet a: std::sync::RwLock<u8>;";
        assert_eq!(faults("crates/nfs/src/a.rs", text).len(), 2);
        assert_eq!(faults("crates/bench/src/a.rs", text), [""; 0]);
        assert_eq!(faults(LOCKS_ROOM, text), [""; 0]);
    }

    #[test]
    fn unsafe_has_its_rooms() {
        let text = "// unsafe\n#![deny(unsafe_code)]\nunsafe { a() }";
        assert_eq!(
            faults("crates/nfs/src/a.rs", text),
            ["crates/nfs/src/a.rs:3: unsafe outside posix::sys, ceph::ffi and gmac::wide"]
        );
        assert_eq!(faults("crates/posix/src/sys.rs", text), [""; 0]);
    }

    #[test]
    fn file_made_outside_the_room_is_a_fault() {
        let text = "fs::write(a, b);\nFile::create(a);\nOpenOptions::new();\nfs::create_dir_all(a);\nmy_fs::writer(a);";
        let found = faults("crates/api/src/a.rs", text);
        assert_eq!(
            found[0],
            "crates/api/src/a.rs:1: fs::write outside of crates/stable/src/files.rs: the mode is not explicit"
        );
        assert_eq!(found.len(), 4, "{found:?}");
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
        assert_eq!(faults("crates/api/src/a.rs", &tests), [""; 0]);
        for path in [FILES_ROOM, "crates/api/tests/a.rs", "crates/api/src/testing.rs", "xtask/src/a.rs"] {
            assert_eq!(faults(path, text), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_silenced_lint_needs_a_reason() {
        assert_eq!(faults("a.rs", "#[allow(dead_code)]"), ["a.rs:1: a lint is silenced without a reason"]);
        assert_eq!(faults("a.rs", "#![expect(\n    a, // reason = \"b\"\n)]").len(), 1);
        assert_eq!(faults("a.rs", "#[cfg_attr(test, allow(a))]").len(), 1);
        assert_eq!(
            faults("a.rs", "#[allow(\n    a,\n    reason = \"it [is]\"\n)]\na.expect(\"b\")"),
            [""; 0]
        );
    }

    #[test]
    fn tests_do_not_count_for_a_files_length() {
        let long = "\n".repeat(LINES_MAX);
        assert_eq!(faults("a.rs", &format!("{long}#[cfg(test)]\nmod tests {{{long}}}")), [""; 0]);
        assert_eq!(
            faults("a.rs", &format!("{long}fn a() {{}}")),
            ["a.rs: 801 lines before its tests; at most 800"]
        );
    }

    #[test]
    fn the_model_speaks_no_protocol() {
        let text = "// as NFS wants\nstruct NfsStatus;\nconst A: &str = \"over RPC\";";
        assert_eq!(
            faults("crates/vfs/src/a.rs", text),
            ["crates/vfs/src/a.rs:2: vfs speaks of \"nfs\"", "crates/vfs/src/a.rs:3: vfs speaks of \"rpc\""]
        );
        assert_eq!(faults("crates/transport/src/a.rs", text).len(), 2);
        assert_eq!(faults("crates/posix/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn rooms_are_silent_about_what_is_not_theirs() {
        let found = |path: &str, text: &str| faults(path, text).join("");
        let backend = "use vfs::backend::Node;";
        assert_eq!(
            found("crates/nfs/src/v3/a.rs", backend),
            "crates/nfs/src/v3/a.rs:1: nfs speaks of \"backend::\""
        );
        assert_eq!(found("crates/posix/src/a.rs", backend), "");
        let node = "fn a(node: &NodeRef) {}";
        assert_eq!(found("crates/nfs/src/a.rs", node), "crates/nfs/src/a.rs:1: nfs speaks of \"noderef\"");
        let clock = "let now = Instant::now();";
        assert_eq!(
            found("crates/vfs/src/claims/a.rs", clock),
            "crates/vfs/src/claims/a.rs:1: vfs/claims speaks of \"instant::now\""
        );
        assert_eq!(found("crates/envelope/src/a.rs", clock).matches("speaks of").count(), 1);
        assert_eq!(found("crates/vfs/src/qos/pacer.rs", clock), "");
    }
}
