//! The code blocks of a document, and the comments before them that say how to run them.

use anyhow::{Context, bail};

const FENCE: &str = "```";
const COMMANDS: &str = "sh";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) role: Role,
    /// Preparations: commands that the reader does not see.
    pub(super) preparation: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role {
    Commands,
    NotRun(String),
    File(String),
    Shown,
}

#[derive(Default)]
struct Comments {
    not_run: Option<String>,
    file: Option<String>,
    before: Option<String>,
}

pub(super) fn blocks(document: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut comments = Comments::default();
    let mut lines = (1..).zip(document.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(begun) = line.strip_prefix("<!--") {
            let mut comment = begun.to_owned();
            while !comment.contains("-->") {
                let (_, line) = lines.next().with_context(|| format!("line {number}: unclosed comment"))?;
                comment = comment + "\n" + line;
            }
            let (comment, _) = comment.split_once("-->").unwrap_or_default();
            comments.take(comment).with_context(|| format!("line {number}"))?;
        } else if let Some(language) = line.trim_start().strip_prefix(FENCE) {
            let mut text = String::new();
            loop {
                let (_, line) = lines.next().with_context(|| format!("line {number}: unclosed block"))?;
                if line.trim_start().starts_with(FENCE) {
                    break;
                }
                text = text + line + "\n";
            }
            let Comments { not_run, file, before } = std::mem::take(&mut comments);
            let role = match (language == COMMANDS, not_run, file) {
                (true, None, None) => Role::Commands,
                (true, Some(why), None) => Role::NotRun(why),
                (false, None, Some(name)) => Role::File(name),
                (false, None, None) => Role::Shown,
                _ => bail!("line {number}: the comment before this block does not fit its kind"),
            };
            blocks.push(Block { line: number + 1, text, role, preparation: before });
        }
    }
    Ok(blocks)
}

impl Comments {
    fn take(&mut self, comment: &str) -> anyhow::Result<()> {
        let (what, text) = comment.split_once(':').unwrap_or((comment, ""));
        let place = match what.trim() {
            "not run" => &mut self.not_run,
            "file" => &mut self.file,
            "before" => &mut self.before,
            other => bail!(
                "a comment is \"not run: WHY\", \"file: NAME\" or \"before: COMMANDS\", not \"{other}\""
            ),
        };
        *place = Some(text.trim().to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(line: usize, text: &str, role: Role, before: Option<&str>) -> Block {
        Block { line, text: text.to_owned(), role, preparation: before.map(str::to_owned) }
    }

    #[test]
    fn blocks_have_the_role_of_their_comment() {
        let document = "\
text\n```sh\na\nb\n```\n<!-- not run: no time -->\n```sh\nc\n```\n```\nd\n```\n\
<!-- before: e\nf -->\n\n```sh\ng\n```\n<!-- file: h.toml -->\n```toml\ni = 1\n```\n";
        let wanted = [
            block(3, "a\nb\n", Role::Commands, None),
            block(8, "c\n", Role::NotRun("no time".to_owned()), None),
            block(11, "d\n", Role::Shown, None),
            block(17, "g\n", Role::Commands, Some("e\nf")),
            block(21, "i = 1\n", Role::File("h.toml".to_owned()), None),
        ];
        assert_eq!(blocks(document).unwrap(), wanted);
    }

    #[test]
    fn comments_without_meaning_are_faults() {
        for (document, why) in [
            ("<!-- later -->\n", "not \"later\""),
            ("<!-- not run: x -->\n```\na\n```\n", "does not fit its kind"),
            ("<!-- file: x -->\n```sh\na\n```\n", "does not fit its kind"),
            ("```sh\na\n", "line 1: unclosed block"),
            ("<!-- x\n", "line 1: unclosed comment"),
        ] {
            let error = format!("{:#}", blocks(document).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
