//! Plain English in comments, messages, test names and documents.

use super::file::File;
use super::source::{Source, line_of};

/// Openers of doc comments that paraphrase a name. A doc comment opens with a noun, a verb or "Whether".
const OPENERS: [&str; 14] = [
    "What",
    "Who",
    "Whose",
    concat!("Who", "m"),
    concat!("Who", "ever"),
    "How",
    "Where",
    "Its",
    "Of",
    "As",
    "It",
    "That",
    "The same",
    "So",
];

/// Archaic phrases, or phrases without an actor. Each is split, because tidy would find this list.
const PHRASES: [&str; 20] = [
    concat!("who", "ever"),
    concat!("who", "m"),
    concat!("it is", " looked"),
    concat!("is looked", " at"),
    concat!("are looked", " at"),
    concat!("is", " told"),
    concat!("are", " told"),
    concat!("may be", " had"),
    concat!("can be", " had"),
    concat!("could be", " had"),
    concat!("to be", " had"),
    concat!("is given", " up"),
    concat!("are given", " up"),
    concat!("is given", " back"),
    concat!("are given", " back"),
    concat!("holds at", " once"),
    concat!("as they", " like"),
    concat!("of", " theirs"),
    concat!("so", " much"),
    concat!("is no", " longer so"),
];

/// Openers of test names that leave out the subject. A test is named subject_condition_result.
const TEST_OPENERS: [&str; 9] = ["what_", "who_", "whose_", "how_", "where_", "of_", "so_", "it_", "as_"];

/// Documents whose phrases tidy does not check: the history of decisions and measurements.
const RECORDS: [&str; 2] = ["docs/decisions/", "docs/lab/"];

pub(super) fn faults(file: &File) -> Vec<String> {
    let path = &file.path;
    if path.ends_with(".rs") {
        let source = Source::new(path, &file.text);
        let mut faults = openers(file);
        faults.extend(in_comments(file, &source));
        faults.extend(in_messages(file, &source));
        faults.extend(test_names(file));
        return faults;
    }
    if path.ends_with(".md") && !RECORDS.iter().any(|record| path.starts_with(record)) {
        return phrases(&file.text).into_iter().map(|(at, phrase)| fault(file, at, phrase)).collect();
    }
    Vec::new()
}

fn fault(file: &File, at: usize, phrase: &str) -> String {
    format!("{}:{}: \"{phrase}\" is not plain English; name the actor", file.path, line_of(&file.text, at))
}

fn openers(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc.filter(|_| !goes_on) {
            let doc = doc.trim_start();
            let opens = |opener: &&&str| {
                let rest = doc.strip_prefix(**opener);
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
            };
            if let Some(opener) = OPENERS.iter().find(opens) {
                faults.push(format!(
                    "{}:{number}: a doc comment opens with \"{opener}\"; open with a noun, a verb or \"Whether\"",
                    file.path
                ));
            }
        }
        goes_on = doc.is_some();
    }
    faults
}

/// A phrase may break over two lines.
fn in_comments(file: &File, source: &Source<'_>) -> Vec<String> {
    // Blanks hide comments in one text and code in the other; every byte keeps its position.
    let comments = file.text.bytes().zip(source.uncommented().bytes());
    let comments =
        comments.map(|(own, masked)| if own == masked && own != b'\n' { b' ' } else { own }).collect();
    let comments = String::from_utf8(comments).unwrap_or_default();
    let comments = comments.replace("///", "   ").replace("//!", "   ").replace("//", "  ");
    phrases(&comments).into_iter().map(|(at, phrase)| fault(file, at, phrase)).collect()
}

/// Tidy checks strings of the product, because people read them as messages.
fn in_messages(file: &File, source: &Source<'_>) -> Vec<String> {
    let is_test =
        file.path.contains("/tests/") || file.path.ends_with("tests.rs") || file.path.contains("/testing/");
    if is_test {
        return Vec::new();
    }
    let end = file.text.find("#[cfg(test)]\nmod ").unwrap_or(file.text.len());
    let found = phrases(source.uncommented()).into_iter().filter(|&(at, _)| at < end);
    found.map(|(at, phrase)| fault(file, at, phrase)).collect()
}

/// Any white space separates words.
fn phrases(text: &str) -> Vec<(usize, &'static str)> {
    let flat = text.replace('\n', " ").to_ascii_lowercase();
    let mut found = Vec::new();
    for phrase in PHRASES {
        let (first, rest) = phrase.split_once(' ').unwrap_or((phrase, ""));
        for (at, _) in flat.match_indices(first) {
            let is_whole = !flat[..at].ends_with(|c: char| c.is_alphanumeric());
            if is_whole && follows(&flat[at + first.len()..], rest) {
                found.push((at, phrase));
            }
        }
    }
    found
}

fn follows(mut text: &str, words: &str) -> bool {
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let trimmed = text.trim_start();
        let Some(rest) = trimmed.strip_prefix(word).filter(|_| trimmed.len() < text.len()) else {
            return false;
        };
        text = rest;
    }
    !text.starts_with(|c: char| c.is_alphanumeric())
}

fn test_names(file: &File) -> Vec<String> {
    let tests = file.text.split("#[test]").skip(1);
    let names = tests.filter_map(|rest| {
        let (_, name) = rest.split_once("fn ")?;
        let name = name.split('(').next()?;
        TEST_OPENERS.iter().any(|opener| name.starts_with(opener)).then_some((rest, name))
    });
    let start = file.text.as_ptr() as usize;
    names
        .map(|(rest, name)| {
            let line = line_of(&file.text, rest.as_ptr() as usize - start);
            format!("{}:{line}: name the test {name} by subject, condition and result", file.path)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        faults(&File { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn opener_that_paraphrases_a_name_is_refused() {
        let text = "/// What it is.\nfn a() {}\n\n/// A file.\n/// What goes on is not an opener.\nfn b() {}\n//! Its end.\n/// Whether it ends.";
        let faults = found("a.rs", text);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("a.rs:1: a doc comment opens with \"What\""), "{faults:?}");
        assert_eq!(found("a.rs", "/// Its-like names, Office, Asks"), [""; 0]);
        assert_eq!(found("a.rs", "// What a plain comment says"), [""; 0]);
    }

    #[test]
    fn phrase_is_found_in_comments_messages_and_documents() {
        let phrase = PHRASES[5];
        let (first, second) = phrase.split_once(' ').unwrap();
        let expected = [format!("a.rs:1: \"{phrase}\" is not plain English; name the actor")];
        assert_eq!(found("a.rs", &format!("// A client {phrase}.")), expected);
        assert_eq!(found("a.rs", &format!("/// A client {first}\n/// {second}.")), expected);
        assert_eq!(found("a.rs", &format!("let a = \"{phrase}\";")), expected);
        assert_eq!(found("a/tests/a.rs", &format!("let a = \"{phrase}\";")), [""; 0]);
        assert_eq!(found(concat!("do", "cs/internals/a.md"), phrase).len(), 1);
        assert_eq!(found("a.rs", &format!("// th{phrase}")), [""; 0]);
        assert_eq!(found("a.rs", &format!("// {} asks, {}ver", PHRASES[0], PHRASES[0])).len(), 1);
    }

    #[test]
    fn test_name_without_a_subject_is_refused() {
        let text = "#[test]\nfn wh\u{61}t_is_read() {}\n#[test]\nfn file_is_read() {}\nfn what_else() {}";
        assert_eq!(
            found("a.rs", text),
            ["a.rs:1: name the test what_is_read by subject, condition and result"]
        );
    }
}
