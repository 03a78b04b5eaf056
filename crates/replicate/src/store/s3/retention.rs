//! Object lock: PutObjectRetention in the mode COMPLIANCE, which nobody can shorten.

use super::S3Options;
use super::http::Agent;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequestBody;
use sha2::{Digest, Sha256};
use std::io;
use ureq::http::Request;
use vfs::Time;

const SECONDS_PER_DAY: i64 = 86_400;

/// Retains an object until a time. False if the store or the bucket has no object lock.
pub(super) fn retain(options: &S3Options, agent: &Agent, key: &str, until: Time) -> io::Result<bool> {
    let body = format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>COMPLIANCE</Mode>\
         <RetainUntilDate>{}</RetainUntilDate></Retention>",
        timestamp(until)
    );
    let endpoint = options.endpoint.trim_end_matches('/');
    let mut request = Request::builder()
        .method("PUT")
        .uri(format!("{endpoint}/{}/{key}?retention", options.bucket))
        .header("content-type", "application/xml")
        .header("x-amz-checksum-sha256", base64(&Sha256::digest(body.as_bytes())))
        .body(HttpRequestBody::from(body.clone()))
        .map_err(io::Error::other)?;
    let credential = AwsCredential {
        key_id: options.access_key.clone(),
        secret_key: options.secret_key.clone(),
        token: options.session_token.clone(),
    };
    let authorizer = AwsAuthorizer::new(&credential, "s3", &options.region);
    authorizer.try_authorize(&mut request, None).map_err(io::Error::other)?;
    let reply = agent.send(request.map(|_| body.into_bytes())).map_err(io::Error::other)?;
    let text = String::from_utf8_lossy(reply.body());
    match reply.status().as_u16() {
        200..300 => Ok(true),
        // A bucket without object lock, or a store that knows none.
        405 | 501 => Ok(false),
        400 | 404
            if ["InvalidRequest", "ObjectLockConfigurationNotFound"]
                .iter()
                .any(|code| text.contains(code)) =>
        {
            Ok(false)
        }
        status => {
            Err(io::Error::other(format!("the store refused to retain an object: status {status}: {text}")))
        }
    }
}

/// A time as RFC 3339 writes it, in whole seconds, never earlier than `time`.
fn timestamp(time: Time) -> String {
    let seconds = time.seconds.saturating_add(i64::from(time.nanos > 0)).max(0);
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    // Years from March on, so that the leap day is the last of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        let texts = ["", "f", "fo", "foo", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
    }

    #[test]
    fn timestamps_round_up() {
        let at = |seconds, nanos| timestamp(Time { seconds, nanos });
        assert_eq!(at(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399, 1), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_199, 0), "2024-02-29T23:59:59Z");
        assert_eq!(at(4_102_444_799, 0), "2099-12-31T23:59:59Z");
    }
}
