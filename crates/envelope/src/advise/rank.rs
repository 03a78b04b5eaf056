//! Ranks options and explains the order.

use std::cmp::Ordering;

use super::{Advice, Bound, Choice, Evidence};
use crate::Provider;

const LEADING: usize = 3;

/// Sorts options: those with a price first, by price; then by capacity; then fewer volumes and better evidence first.
/// Without prices the best of each provider leads: levels of different providers have different prices for the same
/// capacity.
pub(super) fn sort(options: &mut Vec<Choice>) {
    options.sort_by_key(|option| {
        let cost = option.cost.as_ref().map_or(u64::MAX, |cost| cost.millionths);
        (cost, option.capacity(), option.volumes(), option.evidence)
    });
    if options.iter().any(|option| option.cost.is_some()) {
        return;
    }
    let mut leaders: Vec<Provider> = Vec::new();
    let (best, rest): (Vec<Choice>, Vec<Choice>) = std::mem::take(options).into_iter().partition(|option| {
        let provider = option.provider();
        let is_first = !leaders.contains(&provider);
        leaders.extend(is_first.then_some(provider));
        is_first
    });
    options.extend(best);
    options.extend(rest);
}

impl Advice {
    pub fn is_priced(&self) -> bool {
        self.options.iter().any(|option| option.cost.is_some())
    }

    pub fn leading_count(&self) -> usize {
        self.options.len().min(LEADING)
    }

    /// The reason why option `index`, counted from 0, ranks below the best of its provider or below the first
    /// of all. The text counts from 1.
    pub fn reason_for_rank(&self, index: usize) -> Option<String> {
        let option = self.options.get(index)?;
        let of_provider = |one: &Choice| one.provider() == option.provider();
        let priced = self.is_priced();
        let better = self.options.iter().position(|one| !priced && of_provider(one)).unwrap_or(0);
        let better = if better < index { better } else { 0 };
        (better < index).then(|| reason(option, &self.options[better], better + 1, self))
    }
}

impl Choice {
    fn provider(&self) -> Provider {
        self.level().info().provider
    }
}

fn reason(option: &Choice, better: &Choice, number: usize, advice: &Advice) -> String {
    if advice.is_priced() {
        return match option.cost.as_ref().zip(better.cost.as_ref()) {
            Some((cost, least)) if cost > least => {
                let more = u128::from(cost.millionths - least.millionths) * 100;
                let percent = more.div_ceil(u128::from(least.millionths.max(1)));
                format!("costs {percent} % more than option {number}")
            }
            Some(_) => format!("costs as much as option {number}"),
            None => "has no price in the table".to_owned(),
        };
    }
    let (capacity, least) = (option.capacity(), better.capacity());
    if capacity > least {
        let more = (u128::from(capacity.0 - least.0) * 100).div_ceil(u128::from(least.0.max(1)));
        let binding = option.binding().filter(|one| one.kind != Bound::Capacity);
        let why = binding.map_or_else(String::new, |one| format!(", for its {}", one.kind.name()));
        return format!("{more} % larger than option {number}{why}");
    }
    if option.volumes() > better.volumes() {
        return format!("{} volumes, where option {number} has {}", option.volumes(), better.volumes());
    }
    if option.evidence == Evidence::Limits && better.evidence != Evidence::Limits {
        return format!("as large as option {number}, but its envelope is not published");
    }
    let carried = |one: &Choice| one.maximum_load(&advice.workload).map(|(rate, _)| rate);
    match carried(option).cmp(&carried(better)) {
        Ordering::Less => format!("as large as option {number}, and carries less"),
        // Levels are listed the slowest first, and faster ones usually cost more.
        Ordering::Equal => format!("as large as option {number}, and carries as much: only prices decide"),
        Ordering::Greater => {
            format!("as large as option {number}, and faster, but option {number} is fast enough")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Bytes, Catalog, Iops, Level, Price, Prices, Stream, Workload, advise};

    fn workload() -> Workload {
        let stream = Stream::from_iops(Access::Random, Bytes(8192), 700, Iops(20_000));
        Workload { streams: vec![stream], ..Workload::new(Bytes::tib(20)) }
    }

    #[test]
    fn best_of_each_provider_leads_without_prices() {
        let advice = advise(&workload(), &Catalog::default()).unwrap();
        let leading: Vec<Provider> =
            advice.options[..advice.leading_count()].iter().map(Choice::provider).collect();
        for provider in [Provider::Anf, Provider::Gcnv, Provider::Filestore] {
            assert!(leading.contains(&provider), "{leading:?}");
        }
        assert_eq!(advice.reason_for_rank(0), None);
        for index in advice.leading_count()..advice.options.len() {
            let why = advice.reason_for_rank(index).unwrap();
            assert!((1..=3).any(|number| why.contains(&format!("option {number}"))), "{index}: {why}");
        }
    }

    #[test]
    fn price_decides_order() {
        let price = |per_gib| Price { per_gib, ..Price::default() };
        let levels = vec![(Level::AnfUltra, price(300_000)), (Level::GcnvExtreme, price(200_000))];
        let prices = Prices { currency: "EUR".to_owned(), levels };
        let levels = [Level::AnfUltra, Level::AnfPremium, Level::GcnvExtreme];
        let catalog = Catalog { prices: Some(prices), large: Some(false), ..Catalog::of(levels) };
        let advice = advise(&workload(), &catalog).unwrap();
        let levels: Vec<&str> = advice.options.iter().map(|one| one.level().name()).collect();
        assert_eq!(levels, ["gcnv/extreme", "anf/ultra", "anf/premium"]);
        assert_eq!(advice.reason_for_rank(1), Some("costs 50 % more than option 1".to_owned()));
        assert_eq!(advice.reason_for_rank(2), Some("has no price in the table".to_owned()));
    }

    #[test]
    fn faster_option_of_the_same_size_comes_later_because_the_first_suffices() {
        let advice = advise(&workload(), &Catalog::of([Level::AnfPremium, Level::AnfUltra])).unwrap();
        assert_eq!(advice.options[1].level(), Level::AnfUltra);
        let why = advice.reason_for_rank(1).unwrap();
        assert_eq!(why, "as large as option 1, and faster, but option 1 is fast enough");
    }

    #[test]
    fn larger_option_names_its_advantage() {
        let catalog = Catalog::of([Level::AnfPremium]);
        let advice = advise(&workload(), &catalog).unwrap();
        assert_eq!(advice.options.len(), 2, "a regular volume and a large one");
        let why = advice.reason_for_rank(1).unwrap();
        assert_eq!(why, "150 % larger than option 1, for its smallest size");
    }
}
