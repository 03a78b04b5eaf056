//! JSON as every reader understands it alike (I-JSON, RFC 7493): names are unique, integers are exact.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

pub(super) struct Exact(pub(super) Value);

struct ExactVisitor;

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ExactVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    /// `2.0` and `2e0` are integers too (JSON Schema 2020-12 core, §4.2.3).
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let integer = (number.fract() == 0.0).then(|| format!("{number:.0}").parse::<u64>().ok()).flatten();
        match integer {
            Some(integer) => self.visit_u64(integer),
            None => Ok(Number::from_f64(number).map_or(Value::Null, Value::Number)),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Exact(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Exact(value))) = items.next_entry::<String, Exact>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the property {name:?} occurs twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
