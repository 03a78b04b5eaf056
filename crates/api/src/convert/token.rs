//! Tokens.

use super::ToBody;
use api_client::model::{Timestamp, Token};

impl ToBody for control::Token {
    type Body = Token;

    fn to_body(&self) -> Token {
        Token {
            name: self.name.to_string(),
            role: self.role.to_body(),
            created: Timestamp::from_ms(self.created_ms),
            used: self.used_ms.map(Timestamp::from_ms),
        }
    }
}
