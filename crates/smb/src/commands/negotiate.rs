//! NEGOTIATE: dialects and algorithms (MS-SMB2 §3.3.5.3, §3.3.5.4).

use crate::limits::{DIALECTS_MAX, IO_BYTES_MAX, NEGOTIATE_CONTEXTS_MAX, TRANSACT_BYTES_MAX};
use crate::request::context::RequestContext;
use crate::request::export_access::visible_exports;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::connection::Connection;
use crate::state::connection::negotiated::Negotiated;
use crate::state::service::Service;
use smb_wire::compression::Compression;
use smb_wire::fsctl::{ValidateNegotiateRequest, ValidateNegotiateResponse};
use smb_wire::negotiate::{
    Capabilities, Cipher, CompressionAlgorithm, CompressionFlags, ContextType, HashAlgorithm,
    NegotiateContext, NegotiateRequest, NegotiateResponse, SecurityMode, SigningAlgorithm,
};
use smb_wire::posix;
use smb_wire::smb1::Smb1Negotiate;
use smb_wire::types::Dialect;
use smb_wire::{Decode, FileTime, NtStatus, Writer};
use vfs::Time;

/// The dialects in order of preference.
const DIALECTS: [Dialect; 4] = [Dialect::SMB311, Dialect::SMB302, Dialect::SMB300, Dialect::SMB210];
/// The ciphers in order of preference.
const CIPHERS: [Cipher; 4] =
    [Cipher::AES_128_GCM, Cipher::AES_256_GCM, Cipher::AES_128_CCM, Cipher::AES_256_CCM];
/// Signing algorithms of 3.1.1 for sessions with one connection, in order of preference.
const SIGNING: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256];
/// Signing algorithms of 3.1.1 for sessions with several connections, in order of preference. A binding is signed with
/// the key of the session's first channel, and message ids restart on each connection: AES-GMAC would repeat a nonce.
const SIGNING_SHARED: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_GMAC];
const MUST_SIGN: SecurityMode =
    SecurityMode(SecurityMode::SIGNING_ENABLED.0 | SecurityMode::SIGNING_REQUIRED.0);
const SALT_BYTES: usize = 32;

pub(crate) fn negotiate(
    cx: &mut RequestContext<'_, '_>,
    request: &[u8],
    w: &mut Writer<'_>,
) -> CommandResult {
    let args: NegotiateRequest<'_> = RequestContext::decode(request)?;
    if args.dialects.is_empty() || args.dialects.len() > DIALECTS_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let dialect = DIALECTS.into_iter().find(|dialect| args.dialects.contains(dialect));
    let dialect = dialect.ok_or(NtStatus::NOT_SUPPORTED)?;
    let mut negotiated = Negotiated {
        dialect,
        client_guid: args.client_guid,
        client_capabilities: args.capabilities,
        client_security_mode: args.security_mode,
        security_mode: MUST_SIGN,
        capabilities: Capabilities::LARGE_MTU | Capabilities::LEASING,
        cipher: None,
        signing: match dialect {
            Dialect::SMB210 => SigningAlgorithm::HMAC_SHA256,
            _ => SigningAlgorithm::AES_CMAC,
        },
        posix: false,
        compression: None,
    };
    if dialect != Dialect::SMB210 {
        // Sent only to clients that announce them (MS-SMB2 §3.3.5.4): some others fail on unknown bits.
        let mut has = Capabilities::DIRECTORY_LEASING;
        if cx.message.service.is_multichannel {
            has |= Capabilities::MULTI_CHANNEL;
        }
        if cx.message.service.persistent.is_some() {
            has |= Capabilities::PERSISTENT_HANDLES;
        }
        negotiated.capabilities |= args.capabilities.and(has);
    }
    let mut salt = [0; SALT_BYTES];
    let mut contexts = Vec::new();
    if dialect == Dialect::SMB311 {
        (cx.message.service.random)(&mut salt);
        contexts = negotiate_contexts(&args.contexts, &mut negotiated, &salt, has_compressed_share(cx))?;
        if negotiated.signing == SigningAlgorithm::AES_GMAC {
            // Message ids restart on each connection, so a second channel would repeat nonces.
            negotiated.capabilities = negotiated.capabilities.without(Capabilities::MULTI_CHANNEL);
        }
    } else if dialect != Dialect::SMB210 && args.capabilities.contains(Capabilities::ENCRYPTION) {
        negotiated.capabilities |= Capabilities::ENCRYPTION;
        // SMB 3.0 has no cipher negotiation: it always uses AES-128-CCM.
        negotiated.cipher = Some(Cipher::AES_128_CCM);
    }
    if negotiated.cipher.is_some() && has_unsigned_share(cx) {
        negotiated.security_mode = SecurityMode::SIGNING_ENABLED;
    }
    let hint = identity::neg_token_init2();
    let answer = NegotiateResponse {
        contexts,
        security_mode: negotiated.security_mode,
        ..response(cx.message.service, cx.message.now, dialect, negotiated.capabilities, &hint)
    };
    cx.message.connection.set_negotiated(negotiated)?;
    cx.message.connection.preauth().update(request);
    cx.respond(w, &answer)
}

/// Whether this client may use a share without signing. A client without encryption must always sign, since shares that
/// require signing accept encryption instead.
fn has_unsigned_share(cx: &RequestContext<'_, '_>) -> bool {
    visible_exports(cx).any(|(export, _)| !export.share.signing)
}

fn has_compressed_share(cx: &RequestContext<'_, '_>) -> bool {
    visible_exports(cx).any(|(export, _)| export.share.compression)
}

fn negotiate_contexts<'a>(
    contexts: &[NegotiateContext<'_>],
    negotiated: &mut Negotiated,
    salt: &'a [u8],
    compresses: bool,
) -> Result<Vec<NegotiateContext<'a>>, CommandError> {
    if contexts.len() > NEGOTIATE_CONTEXTS_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let mut answers = Vec::new();
    for context in contexts {
        let is_again = |answer: &NegotiateContext<'_>| answer.context_type() == context.context_type();
        if answers.iter().any(is_again) {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        match context {
            NegotiateContext::Preauth { hash_algorithms, .. } => {
                if !hash_algorithms.contains(&HashAlgorithm::SHA_512) {
                    return Err(NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP.into());
                }
                let hash_algorithms = vec![HashAlgorithm::SHA_512];
                answers.push(NegotiateContext::Preauth { hash_algorithms, salt });
            }
            NegotiateContext::Encryption(offered) => {
                negotiated.cipher = CIPHERS.into_iter().find(|cipher| offered.contains(cipher));
                // 0: no common cipher (MS-SMB2 §3.3.5.4).
                answers.push(NegotiateContext::Encryption(vec![negotiated.cipher.unwrap_or_default()]));
            }
            NegotiateContext::Signing(offered) => {
                let has_channels = negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL);
                let preferred = if has_channels { SIGNING_SHARED } else { SIGNING };
                let algorithm = preferred.into_iter().find(|algorithm| offered.contains(algorithm));
                negotiated.signing = algorithm.ok_or(NtStatus::INVALID_PARAMETER)?;
                answers.push(NegotiateContext::Signing(vec![negotiated.signing]));
            }
            NegotiateContext::Other { context_type, data }
                if *context_type == ContextType::POSIX_EXTENSIONS_AVAILABLE =>
            {
                negotiated.posix = has_posix(data)?;
                if negotiated.posix {
                    answers.push(NegotiateContext::Other { context_type: *context_type, data: posix::NAME });
                }
            }
            NegotiateContext::Compression { flags, algorithms } if compresses => {
                if algorithms.is_empty() {
                    return Err(NtStatus::INVALID_PARAMETER.into());
                }
                negotiated.compression = Compression::choose(*flags, algorithms);
                // NONE: no common algorithm (MS-SMB2 §3.3.5.4).
                answers.push(match negotiated.compression {
                    Some(algorithm) => NegotiateContext::Compression {
                        flags: algorithm.flags(),
                        algorithms: algorithm.algorithms(),
                    },
                    None => NegotiateContext::Compression {
                        flags: CompressionFlags::empty(),
                        algorithms: vec![CompressionAlgorithm::NONE],
                    },
                });
            }
            _ => {}
        }
    }
    let is_preauth = |answer: &NegotiateContext<'_>| matches!(answer, NegotiateContext::Preauth { .. });
    if answers.iter().any(is_preauth) { Ok(answers) } else { Err(NtStatus::INVALID_PARAMETER.into()) }
}

fn has_posix(versions: &[u8]) -> Result<bool, NtStatus> {
    match versions.as_chunks::<16>() {
        ([], _) | (_, [_, ..]) => Err(NtStatus::INVALID_PARAMETER),
        (versions, []) => Ok(versions.iter().any(|version| version == posix::NAME)),
    }
}

fn response<'a>(
    service: &Service,
    now: Time,
    dialect: Dialect,
    capabilities: Capabilities,
    security_buffer: &'a [u8],
) -> NegotiateResponse<'a> {
    NegotiateResponse {
        security_mode: MUST_SIGN,
        dialect,
        server_guid: service.guid,
        capabilities,
        max_transact_size: TRANSACT_BYTES_MAX,
        max_read_size: IO_BYTES_MAX,
        max_write_size: IO_BYTES_MAX,
        system_time: FileTime::from_unix(now.seconds, now.nanos),
        server_start_time: FileTime::NONE,
        security_buffer,
        contexts: Vec::new(),
    }
}

/// Answers a client that starts with SMB1 but supports SMB2; the client repeats NEGOTIATE in SMB2 (MS-SMB2 §3.3.5.3.1).
/// Returns `None` if no dialect is shared.
pub(crate) fn multi_protocol(connection: &Connection, message: &[u8], now: Time) -> Option<Vec<u8>> {
    let request = Smb1Negotiate::from_bytes(message).ok()?;
    if !request.offers(Smb1Negotiate::SMB2_WILDCARD) || connection.negotiated().is_some() {
        return None;
    }
    connection.take_ids(0, 1).ok()?;
    let hint = identity::neg_token_init2();
    let capabilities = Capabilities::LARGE_MTU;
    let body = response(&connection.service, now, Dialect::SMB2_WILDCARD, capabilities, &hint);
    let header = smb_wire::header::Header::request(smb_wire::header::Command::NEGOTIATE, 0, 0, 0);
    // Fields without an SMB1 equivalent are zero, including the charge (MS-SMB2 §3.3.5.3.1); some clients check this.
    let header = smb_wire::header::Header {
        credit_charge: 0,
        credits: connection.grant(1, false),
        ..header.response(NtStatus::SUCCESS)
    };
    let mut out = Vec::new();
    smb_wire::compound::push(&mut out, &header, &body);
    Some(out)
}

/// The response to VALIDATE_NEGOTIATE_INFO (MS-SMB2 §3.3.5.15.12); `None` if an attacker changed the negotiation.
pub(crate) fn validate(
    negotiated: &Negotiated,
    service: &Service,
    request: &ValidateNegotiateRequest,
) -> Option<ValidateNegotiateResponse> {
    let best = DIALECTS.into_iter().find(|dialect| request.dialects.contains(dialect));
    let is_same = best == Some(negotiated.dialect)
        && request.capabilities == negotiated.client_capabilities
        && request.guid == negotiated.client_guid
        && request.security_mode == negotiated.client_security_mode;
    is_same.then_some(ValidateNegotiateResponse {
        capabilities: negotiated.capabilities,
        guid: service.guid,
        security_mode: negotiated.security_mode,
        dialect: negotiated.dialect,
    })
}
