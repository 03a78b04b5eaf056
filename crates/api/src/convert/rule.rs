//! Export rules.

use super::words::{protocols_of, to_protocols};
use super::{FromBody, ToBody, ToValue};
use api_client::model::Rule;
use control::{Clients, Error, ExportRule};

impl ToBody for ExportRule {
    type Body = Rule;

    fn to_body(&self) -> Rule {
        Rule {
            clients: self.clients.to_string().split(',').map(|client| client.trim().to_owned()).collect(),
            access: self.access.to_body(),
            squash: self.squash.to_body(),
            anonymous_uid: self.anonymous_uid,
            anonymous_gid: self.anonymous_gid,
            protocols: protocols_of(self.protocols),
            xprtsec: self.protection.to_body(),
        }
    }
}

impl FromBody<Rule> for ExportRule {
    fn from_body(of: Rule) -> Result<Self, Error> {
        // One entry must not become two.
        of.clients.iter().try_for_each(|client| client.parse::<control::Client>().map(drop))?;
        Ok(Self {
            clients: of.clients.join(",").parse::<Clients>()?,
            access: of.access.to_value(),
            squash: of.squash.to_value(),
            anonymous_uid: of.anonymous_uid,
            anonymous_gid: of.anonymous_gid,
            protocols: to_protocols(&of.protocols),
            protection: of.xprtsec.to_value(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_the_way_there_and_back() {
        let rule = Rule::for_clients(vec!["10.1.2.3/16".into(), "build".into()]);
        let inner = ExportRule::from_body(rule.clone()).unwrap();
        assert_eq!(inner.to_body(), rule);
        for bad in [vec![], vec!["a,b".into()], vec![String::new()], vec!["10.0.0.300".into()]] {
            assert!(ExportRule::from_body(Rule::for_clients(bad.clone())).is_err(), "{bad:?}");
        }
    }
}
