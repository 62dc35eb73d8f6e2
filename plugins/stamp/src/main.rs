//! `callgate-stamp write FOLDER` stamps the components in a folder, `callgate-stamp check FOLDER` tells whether their stamps
//! still hold. Run by plugins/build, from the root of the workspace.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use callgate_stamp::{difference, plugins, stamp};

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(".");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => write(root, Path::new(folder)),
        ["check", folder] => check(root, Path::new(folder)),
        _ => {
            writeln!(io::stderr(), "usage: callgate-stamp write|check FOLDER")?;
            Ok(ExitCode::from(2))
        }
    }
}

fn write(root: &Path, folder: &Path) -> io::Result<ExitCode> {
    for plugin in plugins(root)? {
        let component = fs::read(folder.join(format!("{plugin}.wasm")))?;
        fs::write(folder.join(format!("{plugin}.stamp")), stamp(root, &plugin, &component)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(root: &Path, folder: &Path) -> io::Result<ExitCode> {
    let mut stale = false;
    for plugin in plugins(root)? {
        let component = fs::read(folder.join(format!("{plugin}.wasm")))?;
        let has = fs::read_to_string(folder.join(format!("{plugin}.stamp")))?;
        for line in difference(&has, &stamp(root, &plugin, &component)?) {
            stale = true;
            writeln!(io::stdout(), "{plugin}: {line}")?;
        }
    }
    if stale {
        writeln!(io::stderr(), "components are not of the sources that are here\nhint: plugins/build")?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
