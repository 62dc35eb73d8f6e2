//! `callgate version`

use serde::Serialize;

use crate::BUILD;
use crate::cli::Json;
use crate::failure::{Exit, Outcome};
use crate::output;

#[derive(Serialize)]
struct Version {
    version: &'static str,
    build: &'static str,
    wit: &'static str,
}

pub(super) fn show(json: Json) -> Outcome {
    let version = Version { version: env!("CARGO_PKG_VERSION"), build: BUILD, wit: "callgate:policy@0.1.0" };
    if json.json {
        output::json(&version)?;
    } else {
        output::line(&format!("callgate {} (build {}, {})", version.version, version.build, version.wit))?;
    }
    Ok(Exit::Done)
}
