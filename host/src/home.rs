//! Where Callgate's files are: four folders, private to their owner.
//!
//! `CALLGATE_HOME` puts all four into one folder; otherwise they follow the XDG base directories.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::process::getuid;

use crate::environment::Environment;
use crate::failure::Failure;

/// The longest path of a unix socket, bytes: `sun_path` less its NUL.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "macos") { 103 } else { 107 };
const PRIVATE_FOLDER_MODE: u32 = 0o700;
/// The mode of every file in them.
pub(crate) const PRIVATE_FILE_MODE: u32 = 0o600;

/// The folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    config: PathBuf,
    data: PathBuf,
    cache: PathBuf,
    runtime: PathBuf,
}

impl Home {
    /// Finds the folders; makes and touches nothing.
    pub(crate) fn find(environment: &Environment) -> Result<Self, Failure> {
        if let Some(all) = &environment.callgate_home {
            let all = std::path::absolute(all)
                .map_err(|error| Failure::usage(format!("cannot resolve CALLGATE_HOME={}: {error}", all.display())))?;
            return Ok(Self {
                config: all.clone(),
                data: all.clone(),
                cache: all.join("cache"),
                runtime: all.join("run"),
            });
        }
        let below = |given: &Option<PathBuf>, rest: &str| {
            let base = given.clone().or_else(|| environment.home.as_ref().map(|home| home.join(rest)));
            base.map(|base| base.join("callgate")).ok_or_else(|| {
                Failure::environment("neither CALLGATE_HOME nor HOME says where Callgate's files are")
                    .hint("set CALLGATE_HOME to a folder of your own")
            })
        };
        let data = below(&environment.data_home, ".local/share")?;
        // Clients start servers with a short list of variables, often without XDG_RUNTIME_DIR. That is no harm: the lock
        // file beside the database names the socket that the daemon really listens on.
        let runtime = environment.runtime_dir.as_ref().map_or_else(|| data.join("run"), |dir| dir.join("callgate"));
        Ok(Self {
            config: below(&environment.config_home, ".config")?,
            cache: below(&environment.cache_home, ".cache")?,
            runtime,
            data,
        })
    }

    /// Makes the folder of backups, private to its owner.
    pub(crate) fn prepare_backups(&self) -> Result<(), Failure> {
        [&self.data, &self.backups()].into_iter().try_for_each(|folder| private_folder(folder))
    }

    /// Makes the folders that are missing, and refuses any that another user owns or may write to.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.folders().iter().try_for_each(|folder| private_folder(folder))
    }

    /// Checks the folders as [`Home::prepare`] does, and makes none.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.folders().iter().filter(|folder| folder.exists()).try_for_each(|folder| is_private(folder))
    }

    fn folders(&self) -> [PathBuf; 5] {
        [self.config.clone(), self.data.clone(), self.plugins(), self.cache.clone(), self.runtime.clone()]
    }

    /// The configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.config.join("callgate.yaml")
    }

    /// The folder of the configuration file.
    pub(crate) fn config_folder(&self) -> &Path {
        &self.config
    }

    /// The folder of installed plugins.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.data.join("plugins")
    }

    /// The file that names this install, to be compared with the database's own idea of it.
    pub(crate) fn install_marker(&self) -> PathBuf {
        self.config.join("install")
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        self.data.join("journal.db")
    }

    /// The file whose lock makes one daemon, and which names its socket.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.data.join("daemon.lock")
    }

    /// What the daemon has to say.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.data.join("daemon.log")
    }

    /// The sealed file of secrets, when somebody made one.
    pub(crate) fn sealed_file(&self) -> PathBuf {
        self.data.join("credentials.sealed")
    }

    /// The names of the registered servers, a line each, for relays, which open no database. What counts is the database.
    pub(crate) fn registered_names(&self) -> PathBuf {
        self.data.join("servers")
    }

    /// The files of clients as they were before they were edited.
    pub(crate) fn backups(&self) -> PathBuf {
        self.data.join("backups")
    }

    /// The socket a new daemon listens on.
    pub(crate) fn socket(&self) -> Result<PathBuf, Failure> {
        let socket = self.runtime.join("daemon.sock");
        if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(socket);
        }
        Err(Failure::environment(format!(
            "the socket's path is {} bytes long and the system takes at most {SOCKET_PATH_BYTES_MAX}: {}",
            socket.as_os_str().len(),
            socket.display()
        ))
        .hint("set CALLGATE_HOME (or XDG_RUNTIME_DIR) to a folder with a shorter path"))
    }

    /// The folder for compiled components.
    pub(crate) fn compiled(&self) -> Result<Dir, Failure> {
        let folder = self.cache.join("compiled");
        private_folder(&folder)?;
        Dir::open_ambient_dir(&folder, ambient_authority())
            .map_err(|error| Failure::environment(format!("cannot open the folder {}: {error}", folder.display())))
    }
}

fn private_folder(folder: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER_MODE).create(folder);
    made.map_err(|error| unusable(folder, &error))?;
    is_private(folder)
}

fn is_private(folder: &Path) -> Result<(), Failure> {
    let metadata = std::fs::metadata(folder).map_err(|error| unusable(folder, &error))?;
    if metadata.uid() != getuid().as_raw() {
        return Err(Failure::environment(format!("the folder {} belongs to another user", folder.display()))
            .hint("set CALLGATE_HOME to a folder of your own"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Failure::environment(format!("other users may write to the folder {}", folder.display()))
            .hint(format!("chmod go-w {}", folder.display())));
    }
    Ok(())
}

fn unusable(folder: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot use the folder {}: {error}", folder.display()))
        .hint("check that it is a folder of this user, or set CALLGATE_HOME to another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgate_home_holds_everything() {
        let environment = Environment { callgate_home: Some("/tmp/x".into()), ..Environment::default() };
        let home = Home::find(&environment).unwrap();
        assert_eq!(home.database(), Path::new("/tmp/x/journal.db"));
        assert_eq!(home.config_file(), Path::new("/tmp/x/callgate.yaml"));
        assert_eq!(home.socket().unwrap(), Path::new("/tmp/x/run/daemon.sock"));
    }

    #[test]
    fn without_it_the_xdg_folders_hold_it() {
        let environment = Environment {
            home: Some("/home/u".into()),
            data_home: Some("/data".into()),
            runtime_dir: Some("/run/user/1".into()),
            ..Environment::default()
        };
        let home = Home::find(&environment).unwrap();
        assert_eq!(home.database(), Path::new("/data/callgate/journal.db"));
        assert_eq!(home.config_file(), Path::new("/home/u/.config/callgate/callgate.yaml"));
        assert_eq!(home.socket().unwrap(), Path::new("/run/user/1/callgate/daemon.sock"));
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_refused_with_the_way_out() {
        let environment =
            Environment { callgate_home: Some(format!("/{}", "x".repeat(120)).into()), ..Environment::default() };
        let failure = Home::find(&environment).unwrap().socket().unwrap_err();
        assert!(failure.to_string().contains("hint: set CALLGATE_HOME"), "{failure}");
    }

    #[test]
    fn no_home_at_all_is_an_error() {
        assert!(Home::find(&Environment::default()).is_err());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(private_folder(folder.path()).unwrap_err().to_string().contains("other users may write"));
    }
}
