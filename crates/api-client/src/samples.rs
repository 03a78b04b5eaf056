//! A reader of the metrics' text format.

use std::fmt;
use std::str::FromStr;

/// Everything that a service's metrics say at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<Sample>);

/// A number, and what it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name of its family, and for a part of a histogram which.
    pub name: String,
    /// Names and values, in the order in which they came.
    pub labels: Vec<(String, String)>,
    /// The number.
    pub value: f64,
}

/// A line that is none of the text format, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleError(usize);

impl Samples {
    /// Those of this name that have at least these labels.
    pub fn of<'s>(&'s self, name: &'s str, labels: &'s [(&str, &str)]) -> impl Iterator<Item = &'s Sample> {
        self.0.iter().filter(move |sample| {
            sample.name == name && labels.iter().all(|(label, value)| sample.label(label) == Some(value))
        })
    }

    /// The sum of those values; `None` if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.of(name, labels).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// Returns the sum of counters or limits, in whole numbers.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of things, never negative"
    )]
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        self.sum(name, labels).map(|sum| sum.round() as u64)
    }
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => parse_labels(rest)?,
            None => (Vec::new(), rest),
        };
        let value = value.strip_prefix(' ')?.parse().ok()?;
        (!name.is_empty()).then(|| Self { name: name.to_owned(), labels, value })
    }
}

/// Labels up to the brace that ends them, and what follows it.
fn parse_labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = unescape(rest)?;
        labels.push((name.to_owned(), value));
        match rest.strip_prefix(',') {
            Some(more) => text = more,
            None => return Some((labels, rest.strip_prefix('}')?)),
        }
    }
}

/// A label's value up to the quotation mark that ends it, and what follows it.
fn unescape(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.chars());
    loop {
        match letters.next()? {
            '"' => return Some((value, letters.as_str())),
            '\\' => value.push(match letters.next()? {
                'n' => '\n',
                letter @ ('\\' | '"') => letter,
                _ => return None,
            }),
            letter => value.push(letter),
        }
    }
}

impl FromStr for Samples {
    type Err = SampleError;

    /// Reads the text format as it is written here: without time stamps, help and types passed over.
    fn from_str(text: &str) -> Result<Self, SampleError> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|(number, line)| Sample::parse(line).ok_or(SampleError(number)));
        samples.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the metrics is no sample in Prometheus' text format", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_are_refused_by_their_number() {
        for line in [
            "a",
            "a ",
            "a x",
            " 1",
            "{b=\"c\"} 1",
            "a{} 1",
            "a{b=c} 1",
            "a{b=\"c} 1",
            "a{b=\"c\\d\"} 1",
            "a{b=\"c\"}1",
            "a{b=\"c\",} 1",
            "a 1 1700000000",
        ] {
            let wrong = format!("# HELP a b\n\na 1\n{line}\na 2\n").parse::<Samples>().unwrap_err();
            assert!(wrong.to_string().starts_with("line 4 "), "{line}: {wrong}");
        }
    }
}
