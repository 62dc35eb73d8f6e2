//! Programs as a person names them: found, and seen as the kernel will show them when they run.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use callgate_core::agent::{Named, Program};
use callgate_core::evidence::Executable;
use callgate_core::interpreter::is_shell;

/// The longest first line of a script, bytes: the kernel reads no more.
const SHEBANG_BYTES_MAX: u64 = 256;

/// A named program that is not found, or cannot be told to be what will run.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// No folder of the path has it.
    #[error("there is no program {0} in the PATH")]
    NotInPath(String),
    /// It cannot be read.
    #[error("cannot look at {path}: {error}")]
    Unreadable {
        /// What.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// It is no file, or not one that can be run.
    #[error("{0} is not a program")]
    NotAProgram(String),
    /// Its path is not text.
    #[error("{0} is not a path in UTF-8")]
    NotText(String),
    /// A shell's script usually starts another program, and is gone by then.
    #[error("{script} is a script of {shell}, which may start another program and be gone")]
    ShellScript {
        /// The script.
        script: String,
        /// Its shell.
        shell: String,
    },
    /// What runs it is a script itself, which will be gone by then.
    #[error("{script} is run by {interpreter}, which is a script itself and starts another program")]
    NestedScript {
        /// The script.
        script: String,
        /// What runs it.
        interpreter: String,
    },
    /// Its first line says nothing that can be followed.
    #[error("the first line of {0} does not say which program runs it")]
    NoInterpreter(String),
}

/// What somebody named, as absolute paths. A program without a slash is looked for in `path`, anything else begins in `here`.
pub fn name(program: &str, script: Option<&str>, path: Option<&OsStr>, here: &Path) -> Result<Named, NotFound> {
    let program = if program.contains('/') { here.join(program) } else { in_path(program, path)? };
    let script = script.map(|script| text(&here.join(script))).transpose()?;
    Ok(Named { program: text(&program)?, script })
}

/// A named program as the kernel will show it. A script that says itself what runs it is that interpreter with this script, where
/// `path` leads to the interpreter.
pub fn find(named: &Named, path: Option<&OsStr>) -> Result<Program, NotFound> {
    let file = real(Path::new(&named.program))?;
    is_program(&file)?;
    let (file, script) = match &named.script {
        Some(script) => (file, Some(real(Path::new(script))?)),
        None => match shebang(&file)? {
            Some(line) => (interpreter(&line, &file, path)?, Some(file)),
            None => (file, None),
        },
    };
    let metadata = is_program(&file)?;
    text(&file)?;
    Ok(Program {
        named: named.clone(),
        executable: executable(&file, &metadata),
        script: script.map(|script| text(&script)).transpose()?,
    })
}

/// What tells a file from others.
pub(crate) fn executable(path: &Path, file: &Metadata) -> Executable {
    Executable {
        path: path.to_string_lossy().into_owned(),
        inode: file.ino(),
        bytes: file.size(),
        modified_ms: file.mtime().saturating_mul(1000).saturating_add(file.mtime_nsec() / 1_000_000),
    }
}

fn in_path(program: &str, path: Option<&OsStr>) -> Result<PathBuf, NotFound> {
    let is_program = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    let mut candidates = path.into_iter().flat_map(std::env::split_paths).map(|folder| folder.join(program));
    candidates
        .find(|file| file.is_absolute() && is_program(file))
        .ok_or_else(|| NotFound::NotInPath(program.to_owned()))
}

fn real(path: &Path) -> Result<PathBuf, NotFound> {
    fs::canonicalize(path).map_err(|error| unreadable(path, error))
}

/// What is known of a file that can be run.
fn is_program(path: &Path) -> Result<Metadata, NotFound> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, error))?;
    let runs = metadata.is_file() && metadata.mode() & 0o111 != 0;
    runs.then_some(metadata).ok_or_else(|| NotFound::NotAProgram(path.display().to_string()))
}

fn unreadable(path: &Path, error: io::Error) -> NotFound {
    NotFound::Unreadable { path: path.display().to_string(), error }
}

fn text(path: &Path) -> Result<String, NotFound> {
    path.to_str().map(str::to_owned).ok_or_else(|| NotFound::NotText(path.display().to_string()))
}

/// What stands behind `#!` in a file's first line; `None` for a file that does not begin so.
fn shebang(file: &Path) -> Result<Option<Vec<u8>>, NotFound> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(SHEBANG_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => {
            let line = bytes.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
            Ok(line.map(<[u8]>::to_vec))
        }
        // A program may be run without being readable, and a script may not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(unreadable(file, error)),
    }
}

/// The program that runs a script, by its first line.
fn interpreter(line: &[u8], script: &Path, path: Option<&OsStr>) -> Result<PathBuf, NotFound> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let none = || NotFound::NoInterpreter(script.display().to_string());
    let first = Path::new(words.next().ok_or_else(none)?);
    let found = if first.file_name() == Some(OsStr::new("env")) {
        let is_program = |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
        let name: OsString = words.find(is_program).ok_or_else(none)?.to_owned();
        in_path(name.to_str().ok_or_else(none)?, path)?
    } else {
        first.to_owned()
    };
    let real = real(&found)?;
    let (script, interpreter) = (script.display().to_string(), found.display().to_string());
    if real.file_name().and_then(OsStr::to_str).is_some_and(is_shell) {
        return Err(NotFound::ShellScript { script, shell: interpreter });
    }
    if shebang(&real)?.is_some() { Err(NotFound::NestedScript { script, interpreter }) } else { Ok(real) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> String {
            fs::canonicalize(self.0.path()).unwrap().join(name).to_str().unwrap().to_owned()
        }

        /// A file that can be run.
        fn program(&self, name: &str, content: &str) -> String {
            let path = self.at(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn found(&self, named: &str) -> Result<Program, NotFound> {
            find(&Named { program: self.at(named), script: None }, Some(self.0.path().as_os_str()))
        }
    }

    #[test]
    fn a_program_is_found_in_the_path_and_through_links() {
        let folder = Folder::new();
        let real = folder.program("cursor-1.2", "\x7fELF");
        symlink(&real, folder.at("cursor")).unwrap();
        let path = Some(folder.0.path().as_os_str());
        let named = name("cursor", None, path, Path::new("/nowhere")).unwrap();
        assert_eq!(find(&named, None).unwrap().executable.path, real);
        assert!(matches!(name("zed", None, path, Path::new("/")), Err(NotFound::NotInPath(_))));
        let here = name("./cursor", Some("x.js"), None, Path::new("/opt")).unwrap();
        assert_eq!((here.program.as_str(), here.script.as_deref()), ("/opt/./cursor", Some("/opt/x.js")));
    }

    #[test]
    fn a_script_is_its_interpreter_running_it() {
        let folder = Folder::new();
        let node = folder.program("node", "\x7fELF");
        for line in
            ["#!/usr/bin/env node\n", "#!/usr/bin/env -S node --x\n", &format!("#!{node} --x\n"), &format!("#! {node}")]
        {
            let script = folder.program("codex", line);
            let found = folder.found("codex").unwrap();
            assert_eq!((found.executable.path, found.script), (node.clone(), Some(script)), "{line:?}");
        }
    }

    #[test]
    fn what_starts_another_program_is_refused() {
        let folder = Folder::new();
        folder.program("sh", "\x7fELF");
        folder.program("shim", "#!/usr/bin/env sh\nexec node\n");
        folder.program("cursor", "#!/usr/bin/env sh\n");
        folder.program("tool", "#!/usr/bin/env shim\n");
        folder.program("odd", "#!\n");
        assert!(matches!(folder.found("cursor"), Err(NotFound::ShellScript { .. })));
        assert!(matches!(folder.found("tool"), Err(NotFound::NestedScript { .. })));
        assert!(matches!(folder.found("odd"), Err(NotFound::NoInterpreter(_))));
        assert!(matches!(folder.found("gone"), Err(NotFound::Unreadable { .. })));
        fs::write(folder.at("text"), "a text").unwrap();
        assert!(matches!(folder.found("text"), Err(NotFound::NotAProgram(_))));
        assert!(matches!(folder.found("."), Err(NotFound::NotAProgram(_))));
    }

    #[test]
    fn another_file_in_its_place_is_another_program() {
        let folder = Folder::new();
        folder.program("cursor", "\x7fELF 1");
        let before = folder.found("cursor").unwrap();
        assert_eq!(folder.found("cursor").unwrap(), before);
        folder.program("new", "\x7fELF 2");
        fs::rename(folder.at("new"), folder.at("cursor")).unwrap();
        assert_ne!(folder.found("cursor").unwrap(), before);
    }
}
