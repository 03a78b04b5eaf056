//! In which form a command shows its result, and where: the flags that all commands share.

use crate::exit::usage;
use crate::output;
use crate::terminal::{self, printable_lines, unpainted};
use clap::Args;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The format of JSON output without a format of its own. Later versions may add properties, but none changes its meaning
/// under the same format.
const FORMAT: &str = "plimsoll/1";

/// The extensions of a file with text.
pub(crate) const TEXT: &[&str] = &["txt"];

/// The form and place of a result.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Form {
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    json: bool,
    /// Write to this file instead of the standard output (-)
    #[arg(long, short, global = true, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show all columns of tables, however wide they are
    #[arg(long, global = true)]
    wide: bool,
}

/// The place of a result that is written in parts.
pub(crate) struct Out(Option<(PathBuf, File)>);

impl Form {
    /// Whether results are shown as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The maximum number of columns of a table; None without a limit.
    pub(crate) fn columns(&self) -> Option<usize> {
        if self.wide || self.file().is_some() { None } else { terminal::columns() }
    }

    /// Whether the result goes to a file with a name that ends so.
    pub(crate) fn ends_in(&self, extension: &str) -> bool {
        self.file().and_then(Path::extension).is_some_and(|own| own.eq_ignore_ascii_case(extension))
    }

    /// Whether the result goes to the standard output, or to a file whose name has no extension or one of these.
    pub(crate) fn has_extension_of(&self, extensions: &[&str]) -> bool {
        let extension = self.file().and_then(Path::extension);
        extension.is_none_or(|own| extensions.iter().any(|known| own.eq_ignore_ascii_case(known)))
    }

    /// Refuses a file whose name ends in a form that is not written: allowed are `.json` with `--json`, and for text these
    /// extensions or none. `other` may name the flag of another form.
    pub(crate) fn check_extension(&self, texts: &[&str], other: &str) -> anyhow::Result<()> {
        let is_known =
            if self.json { self.has_extension_of(&["json"]) } else { self.has_extension_of(texts) };
        if is_known {
            return Ok(());
        }
        let texts: Vec<String> = texts.iter().map(|text| format!(".{text}")).collect();
        let texts = texts.join(", ");
        Err(usage(format!(
            "--output {}: the name ends in a form that is not written; allowed: {texts} or no ending for text, .json with \
             --json{other}",
            self.file().unwrap_or(Path::new("-")).display()
        )))
    }

    /// The file or directory of the result; `None` for the standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Refuses a file that could not be written, before a long work is done for it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.file().map_or(Ok(()), output::check)
    }

    /// Begins to write.
    pub(crate) fn open(&self) -> anyhow::Result<Out> {
        let open = |path: &Path| Ok::<_, anyhow::Error>((path.to_owned(), output::create(path)?));
        Ok(Out(self.file().map(open).transpose()?))
    }

    /// Shows a result: as JSON, or as the text made of it.
    pub(crate) fn show<T: Serialize>(
        &self,
        result: &T,
        text: impl FnOnce(&T) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let text = if self.json { json(result)? } else { printable_lines(&text(result)?) };
        self.open()?.print(&text)
    }
}

impl Out {
    /// Writes a further part.
    pub(crate) fn print(&mut self, text: &str) -> anyhow::Result<()> {
        match &mut self.0 {
            None => terminal::print(text),
            Some((path, file)) => {
                let written = file.write_all(unpainted(text).as_bytes());
                written.map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
            }
        }
    }
}

/// A value as JSON: it says its format, what is not there is left out, and nothing in it steers a terminal.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(&declared(value)?)?) + "\n")
}

/// Formats JSON in one line.
pub(crate) fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(&serde_json::to_string(&declared(value)?)?) + "\n")
}

fn declared(value: &impl Serialize) -> anyhow::Result<Tree> {
    let mut tree: Tree = serde_json::from_str(&serde_json::to_string(value)?)?;
    if let Tree::Object(properties) = &mut tree
        && !properties.iter().any(|(name, _)| name == "format")
    {
        properties.insert(0, ("format".to_owned(), Tree::Leaf(FORMAT.into())));
    }
    Ok(tree)
}

/// Such characters stand in strings alone, where they may be written as their numbers.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && control::steers_terminal(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// JSON without properties that are `null`, in the order in which it was written.
enum Tree {
    Object(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Leaf(Value),
}

struct TreeVisitor;

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TreeVisitor)
    }
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Tree::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some((name, item)) = items.next_entry()? {
            if !matches!(item, Tree::Leaf(Value::Null)) {
                object.push((name, item));
            }
        }
        Ok(Tree::Object(object))
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(to),
            Self::Array(items) => items.serialize(to),
            Self::Object(properties) => {
                let mut map = to.serialize_map(Some(properties.len()))?;
                for (name, item) in properties {
                    map.serialize_entry(name, item)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Reply {
        zone: &'static str,
        count: Option<u64>,
        items: Vec<Option<f64>>,
        bytes: u64,
        inner: Inner,
    }

    #[derive(Serialize)]
    struct Inner {
        b: Option<i64>,
        a: bool,
    }

    fn reply() -> Reply {
        let inner = Inner { b: None, a: true };
        Reply { zone: "\u{1b}[2J", count: None, items: vec![Some(0.1), None], bytes: u64::MAX, inner }
    }

    #[test]
    fn json_says_its_format_and_leaves_out_what_is_not_there() {
        let text = r#"{"format":"plimsoll/1","zone":"\u001b[2J","items":[0.1,null],"bytes":18446744073709551615,"inner":{"a":true}}"#;
        assert_eq!(
            json_line(&reply()).unwrap(),
            format!("{text}\n"),
            "in its own order, each place of a list kept"
        );
        let pretty: Value = serde_json::from_str(&json(&reply()).unwrap()).unwrap();
        assert_eq!(pretty, serde_json::from_str::<Value>(text).unwrap());
        #[derive(Serialize)]
        struct Own {
            format: &'static str,
        }
        assert_eq!(
            json_line(&Own { format: "plimsoll-run/1" }).unwrap(),
            "{\"format\":\"plimsoll-run/1\"}\n"
        );
        assert_eq!(json_line(&"a\u{202e}b").unwrap(), "\"a\\u202eb\"\n");
    }

    #[test]
    fn a_file_gets_all_columns_and_no_paint() {
        let dir = crate::testing::private_dir();
        let path = dir.path().join("out");
        let form = Form { output: Some(path.clone()), ..Form::default() };
        let painted = |_: &Reply| Ok(terminal::Tone::Bad.paint("words") + "\n");
        form.show(&reply(), painted).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "words\n");
        assert_eq!(form.columns(), None);
        Form { json: true, ..form.clone() }.show(&reply(), painted).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("{\n  \"format\": \"plimsoll/1\",\n"));
        let nowhere = Form { output: Some(dir.path().join("no/where")), ..Form::default() };
        assert!(nowhere.check().is_err() && nowhere.show(&reply(), painted).is_err());
    }
}
