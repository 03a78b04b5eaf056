//! Ordered maps and sets that mostly have one entry: the least one lies beside the tree, which has no memory while there is no other.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// A [`BTreeMap`] that stores a single entry without allocating.
#[derive(Clone, Debug)]
pub(crate) struct SmallMap<K, V> {
    /// `None` if the map is empty.
    first: Option<(K, V)>,
    rest: BTreeMap<K, V>,
}

/// A [`std::collections::BTreeSet`] that stores a single entry without allocating.
#[derive(Clone, Debug)]
pub(crate) struct SmallSet<K>(SmallMap<K, ()>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self { first: None, rest: BTreeMap::new() }
    }
}

impl<K, V> SmallMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first.iter().map(|(key, value)| (key, value)).chain(&self.rest)
    }

    /// All values, in the order of their keys.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.first.iter_mut().map(|(_, value)| value).chain(self.rest.values_mut())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.first {
            Some((first, value)) if first == key => Some(value),
            _ => self.rest.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.first {
            Some((first, value)) if first == key => Some(value),
            _ => self.rest.get_mut(key),
        }
    }

    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        if let Some((first, _)) = &self.first {
            match first.cmp(&key) {
                Ordering::Less => return self.rest.entry(key).or_default(),
                Ordering::Equal => {}
                Ordering::Greater => self.rest.extend(self.first.take()),
            }
        }
        &mut self.first.get_or_insert_with(|| (key, V::default())).1
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match &mut self.first {
            Some((first, known)) if *first == key => Some(std::mem::replace(known, value)),
            Some((first, _)) if *first < key => self.rest.insert(key, value),
            greater => {
                self.rest.extend(greater.replace((key, value)));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.first.as_ref().is_some_and(|(first, _)| first == key) {
            let next = self.rest.pop_first();
            return std::mem::replace(&mut self.first, next).map(|(_, value)| value);
        }
        self.rest.remove(key)
    }
}

impl<K> Default for SmallSet<K> {
    fn default() -> Self {
        Self(SmallMap::default())
    }
}

impl<K> SmallSet<K> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, ())| key)
    }

    pub(crate) fn first(&self) -> Option<&K> {
        self.0.first.as_ref().map(|(key, ())| key)
    }
}

impl<K: Ord> SmallSet<K> {
    #[cfg(test)]
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.0.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    pub(crate) fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K> + Clone) -> impl Iterator<Item = &K> {
        let first = self.first().filter(|first| range.contains(first));
        first.into_iter().chain(self.0.rest.range(range).map(|(key, ())| key))
    }
}

impl<K: Ord> Extend<K> for SmallSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K> IntoIterator for SmallSet<K> {
    type Item = K;
    type IntoIter = std::iter::Chain<std::option::IntoIter<K>, std::collections::btree_map::IntoKeys<K, ()>>;

    fn into_iter(self) -> Self::IntoIter {
        let SmallMap { first, rest } = self.0;
        first.map(|(key, ())| key).into_iter().chain(rest.into_keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn few_entries_are_as_a_tree_has_them(steps in vec((0..4u8, 0..6u8, 0..6u8), 0..60)) {
            let (mut few, mut tree) = (SmallMap::default(), BTreeMap::new());
            let (mut few_set, mut tree_set) = (SmallSet::default(), BTreeSet::new());
            for (number, &(step, key, other)) in steps.iter().enumerate() {
                match step {
                    0 => {
                        prop_assert_eq!(few.insert(key, number), tree.insert(key, number));
                        prop_assert_eq!(few_set.insert(key), tree_set.insert(key));
                    }
                    1 => {
                        prop_assert_eq!(few.remove(&key), tree.remove(&key));
                        prop_assert_eq!(few_set.remove(&key), tree_set.remove(&key));
                    }
                    2 => {
                        *few.get_or_default(key) += 1;
                        *tree.entry(key).or_default() += 1;
                    }
                    _ => prop_assert_eq!(few.get_mut(&key), tree.get_mut(&key)),
                }
                prop_assert_eq!(few.get(&other), tree.get(&other));
                prop_assert!(few.iter().eq(&tree) && few.len() == tree.len() && few.is_empty() == tree.is_empty());
                prop_assert!(few.values_mut().eq(tree.values_mut()));
                prop_assert!(few_set.iter().eq(&tree_set) && few_set.first() == tree_set.first());
                prop_assert_eq!(few_set.len(), tree_set.len());
                prop_assert_eq!(few_set.contains(&key), tree_set.contains(&key));
                prop_assert!(few_set.range(key..).eq(tree_set.range(key..)));
                let (low, high) = (key.min(other), key.max(other));
                prop_assert!(few_set.range(low..=high).eq(tree_set.range(low..=high)));
            }
            prop_assert!(few_set.into_iter().eq(tree_set));
        }
    }
}
