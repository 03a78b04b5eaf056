//! The terminal: how wide it is, what is painted on it, and what does not get through to it.
//!
//! Texts are painted where they are made, and written by [`print`] and [`warn`] alone: these take the paint off where it is not
//! wanted, in pipes and with `NO_COLOR` or `CLICOLOR=0`.

use crate::form;
use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The minimum width: on a narrower terminal tables would be all line breaks.
const COLUMNS_MIN: usize = 40;
/// The width of a terminal that does not tell.
const COLUMNS: usize = 80;

/// The meaning of a part of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// A head or a name.
    Head,
    /// Better than before.
    Good,
    /// A doubt, a warning, a limit that is reached.
    Warning,
    /// A failure.
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(anstyle::Color::Ansi(color)));
        match self {
            Self::Plain => Style::new(),
            Self::Head => Style::new().bold(),
            Self::Good => color(AnsiColor::Green),
            Self::Warning => color(AnsiColor::Yellow),
            Self::Bad => color(AnsiColor::Red),
        }
    }

    /// The text in this tone.
    pub(crate) fn paint(self, text: &str) -> String {
        let style = self.style();
        if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
    }
}

/// The maximum number of columns on the standard output: those of the terminal; None without a limit.
pub(crate) fn columns() -> Option<usize> {
    let out = std::io::stdout();
    out.is_terminal().then(|| columns_of(out))
}

/// The columns of the terminal behind the standard error.
pub(crate) fn columns_of_errors() -> usize {
    columns_of(std::io::stderr())
}

fn columns_of(out: impl std::os::fd::AsFd) -> usize {
    let from_env = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || rustix::termios::tcgetwinsize(out).ok().map(|size| usize::from(size.ws_col));
    let columns = from_env.or_else(own).filter(|columns| *columns > 0).unwrap_or(COLUMNS);
    columns.max(COLUMNS_MIN)
}

/// Reads a line from the terminal without an echo.
pub(crate) fn ask_secret(question: &str) -> anyhow::Result<String> {
    let mut line = String::new();
    {
        let _hidden = Hidden::begin().context("cannot hide what is typed")?;
        eprint!("{}", printable(question));
        std::io::stdin().read_line(&mut line).context("cannot read what is typed")?;
    }
    eprintln!();
    if line.contains(INTERRUPT) {
        bail!("interrupted");
    }
    Ok(line.strip_suffix('\n').unwrap_or(&line).to_owned())
}

/// Ctrl-C, as a character.
const INTERRUPT: char = '\u{3}';

/// A terminal that does not show what is typed, until this is dropped. Meanwhile Ctrl-C is a character, so that it does not
/// end the process and leave the terminal so.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // There is nothing else to be done about a terminal that is gone.
        _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Prints; a reader that closes the pipe is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to the standard output"),
    }
}

/// Whether the standard error gets JSON.
static SPEAKS_JSON: AtomicBool = AtomicBool::new(false);

/// Has warnings and progress on the standard error be JSON from now on, a line each.
pub(crate) fn speak_json() {
    SPEAKS_JSON.store(true, Ordering::Relaxed);
}

/// Prints a warning on the standard error.
pub(crate) fn warn(text: &str) {
    if !note("warning", text) {
        report(Tone::Warning, "warning:", text);
    }
}

/// Prints a line of JSON on the standard error, with the text under this name. False without `--json`.
pub(crate) fn note(name: &str, text: &str) -> bool {
    if !SPEAKS_JSON.load(Ordering::Relaxed) {
        return false;
    }
    let message = in_plain_words(&unpainted(text));
    let line = form::json_line(&json!({ name: { "message": message } })).unwrap_or_default();
    // No reader is left if this fails.
    _ = std::io::stderr().write_all(line.as_bytes());
    true
}

/// Prints an error on the standard error.
pub(crate) fn fail(text: &str) {
    report(Tone::Bad, "error:", text);
}

/// A terminal breaks long lines within words, so words are folded there. Files and pipes get whole lines.
fn report(tone: Tone, kind: &str, text: &str) {
    let text = printable_lines(&format!("{kind} {}", in_plain_words(text)));
    let text = match std::io::stderr().is_terminal() {
        true => text.lines().flat_map(|line| fold(line, columns_of_errors())).collect::<Vec<_>>().join("\n"),
        false => text,
    };
    let text = text.strip_prefix(kind).unwrap_or(&text);
    anstream::eprintln!("{}{text}", tone.paint(kind));
}

/// Words of libraries, and plain ones for them.
const LIBRARY_WORDS: [(&str, &str); 7] = [
    ("keys may not be consistent: KeyMismatch", "the key is of another certificate"),
    ("stream did not contain valid UTF-8", "it is not text in UTF-8"),
    ("failed to lookup address information: ", "the name has no address: "),
    (": io: Peer disconnected", " closes the connection, and is no HTTP server"),
    (": io: received corrupt message of type InvalidContentType", " does not speak TLS, so use http://"),
    (": io: ", ": "),
    ("File exists", "a file of this name exists"),
];

/// The text in plain words, and without the numbers that Rust adds to errors of the system, as in
/// "Is a directory (os error 21)".
pub(crate) fn in_plain_words(text: &str) -> String {
    LIBRARY_WORDS.iter().fold(without_os_numbers(text), |text, (words, plain)| text.replace(words, plain))
}

fn without_os_numbers(text: &str) -> String {
    const OPENING: &str = " (os error ";
    let mut parts = text.split(OPENING);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => plain += rest,
            _ => plain += &format!("{OPENING}{part}"),
        }
    }
    plain
}

/// The standard error for the log, in plain words, and as JSON with `--json`.
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let plain = in_plain_words(&String::from_utf8_lossy(line));
        if note("log", plain.trim_end()) {
            return Ok(line.len());
        }
        std::io::stderr().write_all(plain.as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Whether what is painted stays so on the standard error.
pub(crate) fn has_color() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// The text without paint.
pub(crate) fn unpainted(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Removes control characters, so that foreign text cannot steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if control::steers_terminal(c) { '\u{fffd}' } else { c }).collect()
}

/// Like [`printable`], for several lines that may have colors.
pub(crate) fn printable_lines(text: &str) -> String {
    let line = |line: &str| {
        let mut parts = line.split('\u{1b}');
        let mut safe = printable(parts.next().unwrap_or_default());
        for part in parts {
            let is_paint = PAINT.iter().any(|code| part.starts_with(code));
            safe.push(if is_paint { '\u{1b}' } else { '\u{fffd}' });
            safe.push_str(&printable(part));
        }
        safe
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The ends of the sequences that [`Tone::paint`] writes: bold, green, yellow, red, and the end of each.
const PAINT: [&str; 5] = ["[0m", "[1m", "[31m", "[32m", "[33m"];

/// The text in lines of at most `columns` characters, as far as there are blanks where it may be broken.
pub(crate) fn fold(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = columns;
    for (place, word) in words(text).into_iter().enumerate() {
        let length = word.chars().count();
        if place > 0 && length < room {
            room -= length + 1;
            lines.last_mut().into_iter().for_each(|line| *line += &format!(" {word}"));
        } else {
            room = columns.saturating_sub(length);
            if place == 0 { lines[0] = word } else { lines.push(word) }
        }
    }
    lines
}

/// Units stay with their numbers.
const UNITS: [&str; 17] = [
    "B", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "PiB", "MB/s", "KiB/s", "MiB/s", "GiB/s",
    "IOPS", "ms", "%",
];

/// The parts that a line break does not divide: words, and numbers with their units.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')']));
        match words.last_mut().filter(|last| is_unit && last.ends_with(|c: char| c.is_ascii_digit())) {
            Some(number) => *number += &format!(" {word}"),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// A text in lines of at most so many columns, each behind `indent`.
pub(crate) fn folded(indent: &str, text: &str, columns: Option<usize>) -> String {
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent.len()));
    fold(text, room).into_iter().map(|line| format!("{indent}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_between_words() {
        assert_eq!(fold("a bb ccc", 8), ["a bb ccc"]);
        assert_eq!(fold("a bb ccc", 7), ["a bb", "ccc"]);
        assert_eq!(fold("a bb ccc", 1), ["a", "bb", "ccc"], "words are not broken");
        assert_eq!(fold("", 5), [""]);
        assert_eq!(
            fold("at most 500 MiB/s, or", 11),
            ["at most", "500 MiB/s,", "or"],
            "a number keeps its unit"
        );
        assert_eq!(fold("  a b", 4), ["  a", "b"], "what stands before a line stays there");
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        for (text, expected) in [
            (
                "cannot read x: Is a directory (os error 21); give one",
                "cannot read x: Is a directory; give one",
            ),
            ("a (os error 2) b (os error 13)", "a b"),
            ("a (os error two) b", "a (os error two) b"),
            ("a (os error 2", "a (os error 2"),
            ("cannot read x: stream did not contain valid UTF-8", "cannot read x: it is not text in UTF-8"),
        ] {
            assert_eq!(in_plain_words(text), expected);
        }
    }

    #[test]
    fn paint_gets_through_and_nothing_else() {
        for tone in [Tone::Head, Tone::Good, Tone::Warning, Tone::Bad] {
            let painted = format!("a {} b\nc", tone.paint("word"));
            assert_ne!(painted, "a word b\nc");
            assert_eq!(printable_lines(&painted), painted, "{tone:?}");
            assert_eq!(unpainted(&painted), "a word b\nc");
        }
        assert_eq!(Tone::Plain.paint("word"), "word");
        assert_eq!(Tone::Bad.paint(""), "");
        assert_eq!(printable_lines("\u{1b}[2Ja\u{1b}]0;b\u{7}"), "\u{fffd}[2Ja\u{fffd}]0;b\u{fffd}");
        assert_eq!(printable("\u{1b}[31ma\nb"), "\u{fffd}[31ma\u{fffd}b", "others do not paint");
    }
}
