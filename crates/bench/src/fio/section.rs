//! Splits command lines and job files into sections: names of jobs with their options.

use super::options::{self, Kind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// [`GLOBAL`] for options of all sections that follow.
    pub name: String,
    pub options: Vec<Given>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub name: String,
    pub value: Option<String>,
}

/// The section whose options apply to all later jobs.
pub(super) const GLOBAL: &str = "global";
const ENGINE: &str = "psync";

/// Whether an option of the program consumes the next word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// The value follows `=`, or there is none.
    Stays,
}

use Next::{Stays, Value};

/// Options without an effect on measurements, with their short letters.
const PROGRAM: [(&str, char, Next); 23] = [
    ("output", 'o', Value),
    ("bandwidth-log", 'b', Stays),
    ("minimal", 'm', Stays),
    ("output-format", 'F', Value),
    ("append-terse", 'f', Stays),
    ("showcmd", 's', Stays),
    ("readonly", 'r', Stays),
    ("eta", 'e', Value),
    ("eta-interval", 'O', Value),
    ("eta-newline", 'E', Value),
    ("debug", 'd', Value),
    ("parse-only", 'P', Stays),
    ("alloc-size", 'a', Value),
    ("warnings-fatal", 'w', Stays),
    ("max-jobs", 'j', Value),
    ("terse-version", 'V', Value),
    ("idle-prof", 'I', Value),
    ("status-interval", 'L', Value),
    ("trigger-file", 'W', Value),
    ("trigger-timeout", 'B', Value),
    ("trigger", 'H', Value),
    ("trigger-remote", 'J', Value),
    ("aux-path", 'K', Value),
];
/// Options that run another program.
const REFUSED: [(&str, char, &str); 16] = [
    ("client", 'C', "is for jobs on other machines; give the jobs themselves"),
    ("server", 'S', "starts a server, and has no jobs"),
    ("daemonize", 'D', "starts a server, and has no jobs"),
    ("remote-config", 'R', "reads jobs on another machine; give the jobs themselves"),
    ("section", 'x', "chooses jobs of a file; leave out the others instead"),
    ("profile", 'p', "makes jobs of its own; write them out"),
    ("cmdhelp", 'c', "asks for help, and has no jobs"),
    ("enghelp", 'i', "asks for help, and has no jobs"),
    ("help", 'h', "asks for help, and has no jobs"),
    ("version", 'v', "asks for the version, and has no jobs"),
    ("crctest", 'G', "is a test of the processor, and has no jobs"),
    ("memcpytest", 'M', "is a test of the processor, and has no jobs"),
    ("cpuclock-test", 'T', "is a test of the processor, and has no jobs"),
    ("inflate-log", 'X', "reads a log, and has no jobs"),
    ("merge-blktrace-only", 'A', "merges traces, and has no jobs"),
    ("latency-log", 'l', "is refused by fio itself; write write_lat_log"),
];

const SHOWN: usize = 4;

enum Word {
    Program(Next),
    Job(String),
}

/// Reads the line as a shell does. The program's name is optional.
pub(super) fn command_line(text: &str) -> Result<Vec<Section>, String> {
    let words = words(text)?;
    let mut words = words.iter().map(String::as_str).peekable();
    words.next_if(|word| *word == "fio" || word.ends_with("/fio"));
    let mut sections: Vec<Section> = Vec::new();
    while let Some(word) = words.next() {
        let no_option = || format!("\"{word}\" is not an option; for a job file, give the file alone");
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).ok_or_else(no_option)?;
        let (start, mut value) = match option.split_once('=') {
            Some((start, value)) => (start, Some(value)),
            None => (option, None),
        };
        if start.is_empty() {
            return Err(no_option());
        }
        let meant = meaning(word, start, engine(&sections))?;
        let takes_next = match &meant {
            Word::Program(next) => *next == Value,
            Word::Job(name) => match options::find(name).map(|known| known.kind) {
                Some(kind) => kind != Kind::Switch,
                None if value.is_none() => {
                    return Err(format!("--{name} is not known here; write --{name}=VALUE"));
                }
                None => false,
            },
        };
        if takes_next && value.is_none() {
            let next = words.next().ok_or_else(|| format!("--{start} needs a value"))?;
            if next.starts_with("--") {
                return Err(format!("--{start} needs a value; fio would take the next word for it, {next}"));
            }
            value = Some(next);
        }
        if let Word::Job(name) = meant {
            add(&mut sections, name, value)?;
        }
    }
    Ok(sections)
}

/// Accepts unambiguous abbreviations.
fn meaning(word: &str, start: &str, engine: &str) -> Result<Word, String> {
    let refused = |name: &str, why: &str| Err(format!("--{name} {why}"));
    // A single letter behind a single dash is an option of the program.
    if let Some(letter) = word.strip_prefix('-').filter(|letter| letter.chars().count() == 1) {
        if let Some((_, _, next)) = PROGRAM.iter().find(|(_, known, _)| letter.starts_with(*known)) {
            return Ok(Word::Program(*next));
        }
        if let Some((name, _, why)) = REFUSED.iter().find(|(_, known, _)| letter.starts_with(*known)) {
            return refused(name, why);
        }
    }
    let of_program = PROGRAM.iter().map(|(name, ..)| *name).chain(REFUSED.iter().map(|(name, ..)| *name));
    let of_program = of_program.filter(|name| name.starts_with(start));
    let all: Vec<&str> = of_program.chain(options::beginning_with(start, engine)).collect();
    let name = match all.as_slice() {
        _ if all.contains(&start) || options::find(start).is_some() => start,
        [] => start,
        [only] => only,
        several => {
            let some = several.get(..SHOWN).unwrap_or(several).join(", ");
            let others = if several.len() > SHOWN { " or others" } else { "" };
            return Err(format!("--{start} may be {some}{others}; write the whole name"));
        }
    };
    if let Some((_, _, next)) = PROGRAM.iter().find(|(known, ..)| *known == name) {
        return Ok(Word::Program(*next));
    }
    match REFUSED.iter().find(|(known, ..)| *known == name) {
        Some((_, _, why)) => refused(name, why),
        None => Ok(Word::Job(name.to_owned())),
    }
}

fn engine(sections: &[Section]) -> &str {
    let of = |section: &&Section| section.name == GLOBAL;
    let last = sections.last().into_iter().chain(sections.iter().rev().filter(of));
    let mut named = last.flat_map(|section| section.options.iter().rev());
    named.find(|given| given.name == "ioengine").and_then(|given| given.value.as_deref()).unwrap_or(ENGINE)
}

fn add(sections: &mut Vec<Section>, name: String, value: Option<&str>) -> Result<(), String> {
    if let Some(value) = value.filter(|value| value.contains([';', '#', '\n'])) {
        return Err(format!("--{name}={value} cannot be written into a job file, where ; and # end a line"));
    }
    if name == "name" {
        let job = section_name(value.unwrap_or_default());
        sections.push(Section { name: job, options: Vec::new() });
        return Ok(());
    }
    if sections.is_empty() {
        // Options before the first job apply to all jobs.
        sections.push(Section { name: GLOBAL.to_owned(), options: Vec::new() });
    }
    let Some(section) = sections.last_mut() else { return Ok(()) };
    // In a job file the option would apply to all jobs.
    let has_unit =
        |given: &&Given| given.value.as_deref().is_some_and(|value| value.contains(char::is_alphabetic));
    let is_size = |given: &&Given| {
        let kind = options::find(&given.name).map(|known| known.kind);
        matches!(kind, Some(Kind::Number | Kind::Zone))
    };
    let earlier = section.options.iter().filter(is_size).find(has_unit);
    if let Some(earlier) = earlier.filter(|_| name == "kb_base") {
        return Err(format!(
            "--kb_base applies only to options behind it; write it before --{}",
            earlier.name
        ));
    }
    section.options.push(Given { name, value: value.map(str::to_owned) });
    Ok(())
}

/// fio compares only the first letters.
fn section_name(name: &str) -> String {
    if name.starts_with(GLOBAL) { GLOBAL.to_owned() } else { name.to_owned() }
}

pub(super) fn job_file(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = |wrong: &str| format!("line {number}: {wrong}");
        // fio ends a line at these characters anywhere.
        let line = line.split([';', '#']).next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| at("a section's name ends with ]"))?;
            sections.push(Section { name: section_name(name.trim()), options: Vec::new() });
            continue;
        }
        if line.starts_with("include") {
            return Err(at("include is not followed; put the other file's lines here"));
        }
        let (name, value) = match line.split_once('=') {
            // A space behind the = is a part of the value.
            Some((name, value)) => (name.trim(), Some(value.to_owned())),
            None => (line, None),
        };
        let section = sections.last_mut().ok_or_else(|| at("an option before the first [section]"))?;
        section.options.push(Given { name: name.to_owned(), value });
    }
    // fio reads this option first, at any position.
    sections.iter_mut().for_each(|section| section.options.sort_by_key(|given| given.name != "kb_base"));
    Ok(sections)
}

/// Splits words as a shell does: quotes, backslashes, continued lines. Expands nothing.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => match letters.next() {
                // A continued line; line ends of Windows have two characters.
                Some('\n') => {}
                Some('\r') => drop(letters.next()),
                Some(next) => word.get_or_insert_default().push(next),
                None => {}
            },
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            _ if quote == Some(letter) => quote = None,
            _ if quote.is_none() && letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    match quote {
        Some(quote) => Err(format!("a quotation begins with {quote} and does not end")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(sections: &[Section]) -> Vec<String> {
        let option = |given: &Given| {
            given.value.as_ref().map_or(given.name.clone(), |v| format!("{}={v}", given.name))
        };
        let line = |section: &Section| {
            let options: Vec<String> = section.options.iter().map(option).collect();
            format!("[{}] {}", section.name, options.join(" "))
        };
        sections.iter().map(line).collect()
    }

    #[test]
    fn command_line_is_read_as_by_a_shell() {
        let text = "fio --ioengine=sync --direct 0 \\\n --output=x.json --name=a --time_based --bs='4k' \\\n\
            -group_reporting --name \"b c\" --rw=read";
        let sections = command_line(text).unwrap();
        assert_eq!(
            flat(&sections),
            ["[global] ioengine=sync direct=0", "[a] time_based bs=4k group_reporting", "[b c] rw=read"]
        );
        for (wrong, part) in [
            ("fio a.fio", "job file"),
            ("fio --name", "needs a value"),
            ("fio --client=b", "other machines"),
            ("fio --name='a", "does not end"),
            ("fio --name=a --odd --rw=read", "write --odd=VALUE"),
            (
                "fio --name=a --direct --rw=read",
                "--direct needs a value; fio would take the next word for it, --rw=read",
            ),
            ("fio --name=a --bs=4k --kb_base=1000", "write it before --bs"),
            ("fio --name=a --filename=a;b", "; and # end a line"),
            ("fio --name=a --io=1", "may be "),
            ("fio --name=a -h", "asks for help"),
            ("fio --name=a --", "is not an option"),
            ("fio --name=a --v", "or others; write the whole name"),
        ] {
            assert!(command_line(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }

    #[test]
    fn switches_leave_the_next_word_alone() {
        let text = "fio -m --eta never --name=a --ioengine=io_uring --hipri --rw=randwrite --fixedbufs --time_based --runt 5 \
            --verify_only --append-terse --direct 1";
        let expected =
            "[a] ioengine=io_uring hipri rw=randwrite fixedbufs time_based runtime=5 verify_only direct=1";
        assert_eq!(flat(&command_line(text).unwrap()), [expected]);
    }

    #[test]
    fn job_file_has_comments_and_sections() {
        let text = "; comment\n[global-all]\nbs =8k # why\nkb_base=1000\n\n[one]\nrw=read\ntime_based\n[two]\nbs= 4k";
        assert_eq!(
            flat(&job_file(text).unwrap()),
            ["[global] kb_base=1000 bs=8k", "[one] rw=read time_based", "[two] bs= 4k"]
        );
        for (wrong, part) in
            [("bs=1", "line 1"), ("[a\n", "ends with ]"), ("[a]\ninclude b.fio", "line 2: include")]
        {
            assert!(job_file(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }
}
