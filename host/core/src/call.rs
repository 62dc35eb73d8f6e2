//! One `tools/call`, read and attributed, as it is put before the chain.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
use crate::identity::{Caller, SessionId};
use crate::permit::Binding;

/// The largest arguments that are judged, bytes. Larger ones are refused before any plugin sees them, and are neither put
/// into their canonical form nor summed up.
pub const ARGUMENT_BYTES_JUDGED_MAX: usize = 4 * 1024 * 1024;

/// One `tools/call` to decide. Cheap to clone: its arguments are shared.
#[derive(Clone, Debug)]
pub struct Call {
    /// The frame that a permit will be bound to.
    pub binding: Binding,
    /// The session that asks.
    pub session: SessionId,
    /// The request id's raw JSON text, as it arrived.
    pub request_id: String,
    /// Who asks which server.
    pub caller: Arc<Caller>,
    /// The tool's name, decoded, byte for byte.
    pub tool: String,
    /// What the server said of the tool when it last listed it in this session; `None` when it never did.
    pub listed: Option<Arc<Listed>>,
    /// `params.arguments` as the exact JSON text that will be forwarded; `{}` when the call has none.
    pub arguments: Arguments,
}

/// A call's arguments as JSON text. Cheap to clone: they are shared.
#[derive(Clone, Debug)]
pub struct Arguments(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    text: Box<str>,
    digest: OnceLock<Digest>,
}

impl Arguments {
    /// The text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// SHA-256 of the canonical form ([`crate::canonical`]). Made when it is first asked for: most calls are decided without it.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| canonical::digest(&self.0.text))
    }
}

impl<T: Into<Box<str>>> From<T> for Arguments {
    fn from(text: T) -> Self {
        Self(Arc::new(Kept { text: text.into(), digest: OnceLock::new() }))
    }
}

/// What a server said of a tool: claims of an untrusted party.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// MCP `ToolAnnotations`; `None` when the definition has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// SHA-256 of the definition's exact bytes.
    pub definition: Digest,
}

/// MCP `ToolAnnotations`; `None` where the server said nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Annotations {
    /// `readOnlyHint`
    #[serde(default, rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `destructiveHint`
    #[serde(default, rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`
    #[serde(default, rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    #[serde(default, rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}
