//! Command lines and job files as sections: names of jobs with the options written for them.

/// A job or `global`, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Its name; [`GLOBAL`] for options of all that follow.
    pub name: String,
    /// Options in their order.
    pub options: Vec<Given>,
}

/// An option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name.
    pub name: String,
    /// What follows `=`.
    pub value: Option<String>,
}

/// The section for all jobs after it.
pub(super) const GLOBAL: &str = "global";
/// Options that need no value, so that on a command line what follows is none.
const SWITCHES: [&str; 14] = [
    "bs_unaligned",
    "blocksize_unaligned",
    "norandommap",
    "time_based",
    "verify_only",
    "exitall",
    "exitall_on_error",
    "stonewall",
    "wait_for_previous",
    "new_group",
    "thread",
    "group_reporting",
    "zero_buffers",
    "refill_buffers",
];
/// What the program is told beside its jobs, without consequence for what is measured; those with `true` take
/// a value.
const PROGRAM: [(&str, bool); 20] = [
    ("output", true),
    ("output-format", true),
    ("minimal", false),
    ("append-terse", false),
    ("terse-version", true),
    ("bandwidth-log", false),
    ("eta", true),
    ("eta-newline", true),
    ("eta-interval", true),
    ("status-interval", true),
    ("debug", true),
    ("parse-only", false),
    ("readonly", false),
    ("warnings-fatal", false),
    ("max-jobs", true),
    ("alloc-size", true),
    ("idle-prof", true),
    ("aux-path", true),
    ("cpuclock-test", false),
    ("showcmd", false),
];
/// What makes it another program.
const REFUSED: [(&str, &str); 6] = [
    ("client", "is for jobs on other machines; give the jobs themselves"),
    ("server", "starts a server, and has no jobs"),
    ("remote-config", "reads jobs on another machine; give the jobs themselves"),
    ("section", "chooses jobs of a file; leave out the others instead"),
    ("profile", "makes jobs of its own; write them out"),
    ("cmdhelp", "asks for help, and has no jobs"),
];

/// Reads a command line as a shell would; with or without the program's name at its beginning.
pub(super) fn command_line(text: &str) -> Result<Vec<Section>, String> {
    let words = words(text)?;
    let mut words = words.iter().map(String::as_str).peekable();
    words.next_if(|word| *word == "fio" || word.ends_with("/fio"));
    let mut sections: Vec<Section> = Vec::new();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            return Err(format!("\"{word}\" is no option; if it is a job file, give the file alone"));
        };
        let (name, mut value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(format!("--{name} {why}"));
        }
        let of_program = PROGRAM.iter().find(|(known, _)| *known == name);
        let takes_value = of_program.map_or(!SWITCHES.contains(&name), |(_, takes)| *takes);
        if takes_value && value.is_none() {
            value = Some(words.next().ok_or_else(|| format!("--{name} needs a value"))?);
        }
        if of_program.is_some() {
            continue;
        }
        let value = value.map(str::to_owned);
        match (name, &value, sections.last_mut()) {
            ("name", Some(job), _) => sections.push(Section { name: job.clone(), options: Vec::new() }),
            (_, _, Some(section)) => section.options.push(Given { name: name.to_owned(), value }),
            // What stands before the first job is for all.
            (_, _, None) => {
                let options = vec![Given { name: name.to_owned(), value }];
                sections.push(Section { name: GLOBAL.to_owned(), options });
            }
        }
    }
    Ok(sections)
}

/// Reads a job file.
pub(super) fn job_file(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = |wrong: &str| format!("line {number}: {wrong}");
        // fio ends a line at these wherever they stand.
        let line = line.split([';', '#']).next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| at("a section's name ends with ]"))?;
            sections.push(Section { name: name.trim().to_owned(), options: Vec::new() });
            continue;
        }
        if line.starts_with("include ") {
            return Err(at("include is not followed; put the other file's lines here"));
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (line, None),
        };
        let section = sections.last_mut().ok_or_else(|| at("an option before the first [section]"))?;
        section.options.push(Given { name: name.to_owned(), value });
    }
    Ok(sections)
}

/// Words of a shell: quotes, backslashes, and lines that go on after a backslash. Nothing is replaced.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => match letters.next() {
                // The line goes on; Windows' ends have two letters.
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
    fn a_command_line_is_read_as_by_a_shell() {
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
        ] {
            assert!(command_line(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }

    #[test]
    fn a_job_file_has_comments_and_sections() {
        let text = "; comment\n[global]\nbs = 8k # why\n\n[one]\nrw=read\ntime_based\n[two]\n";
        assert_eq!(flat(&job_file(text).unwrap()), ["[global] bs=8k", "[one] rw=read time_based", "[two] "]);
        for (wrong, part) in
            [("bs=1", "line 1"), ("[a\n", "ends with ]"), ("[a]\ninclude b.fio", "line 2: include")]
        {
            assert!(job_file(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }
}
