//! The relay's own refusals, in words.

use std::time::Duration;

use callgate_core::code::Code;
use callgate_core::refusal::Reason;
use callgate_core::verdict::Retry;

/// Nobody is there to decide.
pub(crate) fn unreachable(trouble: &str) -> Reason {
    let message = format!("the Callgate daemon cannot be reached ({trouble}); `callgate daemon start` shows why");
    Reason::of(Code::DaemonUnreachable, message, Retry::Later)
}

/// The daemon said that it cannot serve.
pub(crate) fn unavailable(message: &str) -> Reason {
    Reason::of(Code::DaemonUnreachable, format!("the Callgate daemon cannot serve: {message}"), Retry::Later)
}

/// The daemon did not say `what` within `limit`.
pub(crate) fn slow(what: &str, limit: Duration) -> Reason {
    Reason::of(Code::DaemonSlow, format!("the Callgate daemon gave no {what} within {limit:?}"), Retry::Later)
}

/// The connection ended before the decision came.
pub(crate) fn lost(how: &str) -> Reason {
    let message = format!("the connection to the Callgate daemon ended before it gave a decision ({how})");
    Reason::of(Code::DaemonLost, message, Retry::Later)
}

/// The daemon is of another build.
pub(crate) fn other_build(daemon: &str, relay: &str) -> Reason {
    let message = format!(
        "the Callgate daemon is of build {daemon} and this relay of build {relay}; \
         `callgate daemon restart` and then a restart of this server in the client mend it"
    );
    Reason::of(Code::OlderBuild, message, Retry::Later)
}

/// The daemon's answer is for something else.
pub(crate) fn mismatch(what: &str) -> Reason {
    Reason::of(
        Code::ReplyMismatch,
        format!("the Callgate daemon's answer does not belong to this call: {what}"),
        Retry::Later,
    )
}

/// Too many requests are in flight.
pub(crate) fn overload(most: usize) -> Reason {
    let message = format!("{most} requests of this session are in flight, the most there may be");
    Reason::of(Code::SessionOverload, message, Retry::Later)
}

/// The call cannot be put into a question to the daemon.
pub(crate) fn too_large(why: &str) -> Reason {
    Reason::of(Code::CallTooLarge, format!("the call is too large to be decided: {why}"), Retry::Changed)
}

/// The server cannot be written to.
pub(crate) fn server_write() -> Reason {
    let message = "the server has ended or takes no more input, so the call cannot be written to it";
    Reason::of(Code::ServerWrite, message, Retry::Later)
}
