//! Tables as values, shared by all formats of a report.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub title: String,
    /// The head of the row labels first, then one for each cell.
    pub head: Vec<String>,
    /// Each row has one cell less than `head`.
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub kind: RowKind,
    pub label: String,
    pub cells: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// Measured; the page has such a row.
    Page,
    /// Measured; the page has no such row.
    Measured,
    Published,
    /// The source of the rows below, without cells.
    Heading,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Nothing,
    Text(String),
    /// A figure, and the number of decimals to show.
    Number(f64, usize),
    /// A used share, and its text. More than 1 is too much.
    Share(f64, String),
}

impl Table {
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|&one| one.to_owned()).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, label: impl Into<String>, cells: Vec<Value>) {
        self.rows.push(Row { kind: RowKind::Measured, label: label.into(), cells });
    }
}

impl Value {
    pub fn count(count: u64) -> Self {
        Self::Number(count as f64, 0)
    }

    /// Three digits, but whole numbers are not rounded.
    pub fn figure(value: f64) -> Self {
        let digits = match value.abs() {
            0.0 => 0,
            large if large >= 99.95 => 0,
            large if large >= 9.995 => 1,
            large if large >= 0.9995 => 2,
            _ => 3,
        };
        Self::Number(value, digits)
    }

    pub fn percent(share: f64) -> Self {
        Self::Number(share * 100.0, 1)
    }

    /// Two decimals; nothing if the divisor is 0.
    pub fn ratio(value: f64, over: f64) -> Self {
        if over > 0.0 { Self::Number(value / over, 2) } else { Self::Nothing }
    }

    /// Without separators, for programs.
    pub fn plain(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) | Self::Share(_, text) => text.clone(),
            Self::Number(value, digits) => format!("{value:.digits$}"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(value, digits) => f.write_str(&separated(*value, *digits)),
            Self::Nothing | Self::Text(_) | Self::Share(..) => f.write_str(&self.plain()),
        }
    }
}

/// Commas separate thousands.
pub fn separated(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let whole = text.find('.').unwrap_or(text.len());
    let mut shown = sign.to_owned();
    for (place, digit) in text.char_indices() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_and_separators() {
        for (value, shown) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.235, "1.24"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1_234_567.8, "1,234,568"),
            (-4_321.0, "-4,321"),
        ] {
            assert_eq!(Value::figure(value).to_string(), shown);
        }
        assert_eq!(Value::figure(1_234_567.8).plain(), "1234568");
        assert_eq!(separated(999.0, 0) + &separated(1000.5, 2), "9991,000.50");
        assert_eq!(Value::percent(0.0525).to_string(), "5.2");
        assert_eq!(Value::ratio(1.0, 0.0), Value::Nothing);
    }
}
