//! Parsers of command-line values.

use crate::number::whole;
use clap::builder::TypedValueParser;
use envelope::{Access, Bytes, BytesPerSecond, Iops, Provider, Stream};

/// Operations a second: `900`, `120k`, `1.2M`.
pub(super) fn iops(text: &str) -> Result<Iops, String> {
    match text.parse() {
        Ok(Iops(0)) => Err("a rate of 0 is not a load; allowed: 1 or more".to_owned()),
        found => found.map_err(|refusal| refusal.to_string()),
    }
}

/// A latency in microseconds: `2ms`, `0.5ms`, `800us`. A bare number is refused: it would be seconds, by mistake.
pub(super) fn latency(text: &str) -> Result<u64, String> {
    let has_unit = text.ends_with(|last: char| last.is_alphabetic());
    let time = has_unit.then(|| envelope::parse_duration(text).ok()).flatten();
    let us = time.and_then(|time| u64::try_from(time.as_micros()).ok());
    us.filter(|us| (1..=1_000_000_000).contains(us)).ok_or_else(|| {
        format!("\"{text}\" is not a latency; allowed: a number with us, ms or s, like 2ms or 800us")
    })
}

/// A share of reads in thousandths: `70`, `52.5`, `70%`. `0.7` is refused: it may mean 70 percent.
pub(super) fn reads(text: &str) -> Result<u32, String> {
    let wrong =
        || format!("\"{text}\" is not a share of reads; allowed: 0 to 100 percent, with one decimal at most");
    let percent = text.strip_suffix('%').unwrap_or(text);
    let (whole, tenth) = percent.split_once('.').unwrap_or((percent, "0"));
    let number =
        |part: &str| part.parse::<u32>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_fraction = number(whole) == Some(0) && number(tenth).is_some_and(|tenth| tenth > 0);
    if is_fraction && percent == text {
        return Err(format!(
            "\"{text}\" is ambiguous; allowed: percent, like 70, or {text}% for less than one percent"
        ));
    }
    let whole = number(whole).filter(|&whole| whole <= 100).ok_or_else(wrong)?;
    let tenth = number(tenth).filter(|&tenth| tenth <= 9).ok_or_else(wrong)?;
    Some(whole * 10 + tenth).filter(|&thousandths| thousandths <= 1000).ok_or_else(wrong)
}

/// Bytes of an operation: `8k`, `256KiB`, `8192`.
pub(super) fn block(text: &str) -> Result<Bytes, String> {
    envelope::parse_size(text).map(Bytes).map_err(|refusal| refusal.to_string())
}

/// A number of users, streams, machines, GPUs or jobs.
pub(super) fn count() -> impl TypedValueParser<Value = u32> {
    whole::<u32>(1..=u32::MAX)
}

pub(super) fn access(text: &str) -> Result<Access, String> {
    match text {
        "random" => Ok(Access::Random),
        "sequential" => Ok(Access::Sequential),
        _ => Err(format!("\"{text}\" is not a pattern; allowed: random, sequential")),
    }
}

/// `PATTERN,BLOCK,READ%,RATE`: `sequential,256k,100,2GiB/s`, `random,8k,70,120k`.
pub(super) fn load(text: &str) -> Result<Stream, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [pattern, size, share, rate] = parts[..] else {
        return Err(format!(
            "\"{text}\" is not a load; allowed: PATTERN,BLOCK,READ,RATE, like random,8k,70,120k or \
             sequential,256k,100,2GiB/s"
        ));
    };
    let (access, block, read_thousandths) = (access(pattern)?, block(size)?, reads(share)?);
    match rate.parse::<BytesPerSecond>() {
        Ok(rate) => Ok(Stream { access, block, read_thousandths, rate }),
        Err(_) => Ok(Stream::from_iops(access, block, read_thousandths, iops(rate)?)),
    }
}

/// The providers whose levels to choose from.
#[derive(Clone, Debug)]
pub(super) struct Providers(pub(super) Vec<Provider>);

/// One provider, or `all`.
pub(super) fn providers(text: &str) -> Result<Providers, String> {
    let only = |provider| Ok(Providers(vec![provider]));
    match text {
        "anf" => only(Provider::Anf),
        "gcnv" => only(Provider::Gcnv),
        "filestore" => only(Provider::Filestore),
        "plimsoll" => only(Provider::Plimsoll),
        "all" => Ok(Providers(vec![Provider::Anf, Provider::Gcnv, Provider::Filestore, Provider::Plimsoll])),
        _ => Err(format!("\"{text}\" is not a provider; allowed: anf, gcnv, filestore, plimsoll, all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(["900", "120k", "1.2M"].map(|text| iops(text).unwrap().0), [900, 120_000, 1_200_000]);
        assert_eq!(
            ["2ms", "0.5ms", "800us", "1s"].map(|text| latency(text).unwrap()),
            [2_000, 500, 800, 1_000_000]
        );
        assert_eq!(
            ["70", "52.5", "0", "100", "70%"].map(|text| reads(text).unwrap()),
            [700, 525, 0, 1000, 700]
        );
        for text in ["", "k", "-1", "0", "1e30", "12x", "nan"] {
            assert!(
                iops(text).unwrap_err().contains(if text == "0" { "1 or more" } else { "like 900, 120k" }),
                "{text}"
            );
        }
        for text in ["2", "ms", "-1ms", "0us", "2h"] {
            assert!(latency(text).unwrap_err().contains("like 2ms"), "{text}");
        }
        for fraction in ["0.7", "0.25", "0.07"] {
            assert!(reads(fraction).unwrap_err().contains("like 70"), "{fraction}");
        }
        assert_eq!(reads("0.7%"), Ok(7));
        for text in ["", "101", "100.1", "70.25", "-5", "7.x", "+5", "7.", "999999999"] {
            assert!(reads(text).unwrap_err().contains("0 to 100"), "{text}");
        }
    }

    #[test]
    fn load_has_four_parts() {
        let random = load("random,8k,70,120k").unwrap();
        assert_eq!(random, Stream::from_iops(Access::Random, Bytes(8192), 700, Iops(120_000)));
        let sequential = load("sequential, 256KiB, 100, 2GiB/s").unwrap();
        assert_eq!((sequential.rate, sequential.block), (BytesPerSecond::gib(2), Bytes(256 << 10)));
        for (text, allowed) in [
            ("random,8k,70", "PATTERN,BLOCK,READ,RATE"),
            ("zigzag,8k,70,1k", "random, sequential"),
            ("random,8q,70,1k", "4096B, 8k"),
            ("random,8k,170,1k", "0 to 100"),
            ("random,8k,70,fast", "120k"),
        ] {
            assert!(load(text).unwrap_err().contains(allowed), "{text}");
        }
    }
}
