//! Whole numbers as people write them: an error names the range.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

/// The greatest user or group ID: 4294967295 stands for none.
pub(crate) const ID_MAX: u32 = vfs::model::caller::INVALID_ID - 1;

/// A parser of the whole numbers of this range.
pub(crate) fn whole<T>(
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| allowed(&range))
}

/// The words for the numbers of a range.
pub(crate) fn allowed<T: Display>(range: &impl RangeBounds<T>) -> String {
    let (Bound::Included(least) | Bound::Excluded(least)) = range.start_bound() else {
        return "allowed: a whole number".to_owned();
    };
    match range.end_bound() {
        Bound::Included(most) => format!("allowed: a whole number from {least} to {most}"),
        Bound::Excluded(end) => format!("allowed: a whole number of at least {least} and less than {end}"),
        Bound::Unbounded => format!("allowed: a whole number of {least} or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::{Arg, ArgAction, Command, CommandFactory};

    #[test]
    fn number_outside_its_range_is_refused_with_the_range() {
        let parse = whole(1..=1800_u64);
        assert_eq!(parse("1800"), Ok(1800));
        for text in ["0", "1801", "-1", "x", "", "1.5", "99999999999999999999"] {
            assert_eq!(parse(text).unwrap_err(), "allowed: a whole number from 1 to 1800", "{text}");
        }
        assert_eq!(whole(1_usize..)("0").unwrap_err(), "allowed: a whole number of 1 or more");
    }

    /// Texts that most options refuse.
    const NONSENSE: [&str; 2] = ["\u{1}", "-1"];

    fn refusals(option: &Arg) -> Vec<String> {
        let alone = Arg::new("option").long("option").value_parser(option.get_value_parser().clone());
        let refusal = |text: &&str| {
            let command = Command::new("p").arg(alone.clone());
            command
                .try_get_matches_from(["p", &format!("--option={text}")])
                .err()
                .map(|error| error.to_string())
        };
        NONSENSE.iter().filter_map(refusal).collect()
    }

    fn check(command: &Command, path: &str, silent: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        for option in command.get_arguments() {
            let takes_value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
            for refusal in refusals(option).into_iter().filter(|_| takes_value) {
                if !["allowed: ", "possible values: ", "write ", ", like "]
                    .iter()
                    .any(|words| refusal.contains(words))
                {
                    silent.push(format!(
                        "{path} {}: {}",
                        option.get_id(),
                        refusal.lines().next().unwrap_or("")
                    ));
                }
            }
        }
        command.get_subcommands().for_each(|child| check(child, &path, silent));
    }

    #[test]
    fn every_option_that_refuses_a_value_says_what_is_allowed() {
        let mut silent = Vec::new();
        check(&Cli::command(), "", &mut silent);
        assert_eq!(silent, [""; 0]);
    }
}
