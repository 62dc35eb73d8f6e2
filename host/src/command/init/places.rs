//! Which files there are, and which program is put into them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use callgate_clients::client::{Client, Folders, Place, Platform};
use callgate_clients::file::Snapshot;

use super::Found;
use crate::cli::init::Init;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::launch;

/// The files that are there; of clients that were named, those too that are not.
pub(super) fn find(init: &Init, environment: &Environment) -> Result<Vec<Found>, Failure> {
    let places = match (&init.config, init.clients.as_slice()) {
        (Some(path), [client]) => vec![Place { client: *client, path: absolute(path)?, shared: is_shared(path) }],
        (Some(_), _) => return Err(Failure::usage("--config is about one client's file").hint("give --client once")),
        (None, clients) => known(clients, environment)?,
    };
    let asked = !init.clients.is_empty();
    let mut seen = HashSet::new();
    let read = |place: Place| Found { file: Snapshot::read(&place.path), place };
    // A file can be one client's for all work and for the project in this folder, and two clients' at once.
    let mut is_new = |found: &Found| match &found.file {
        Ok(Some(file)) => seen.insert(file.path().to_owned()),
        Ok(None) => asked && seen.insert(found.place.path.clone()),
        Err(_) => true,
    };
    Ok(places.into_iter().map(read).filter(|found| is_new(found)).collect())
}

fn known(clients: &[Client], environment: &Environment) -> Result<Vec<Place>, Failure> {
    let folders = Folders {
        home: environment.home.clone(),
        xdg_config: environment.config_home.clone(),
        app_data: environment.app_data.clone(),
        codex: environment.codex_home.clone(),
        claude: environment.claude_config_dir.clone(),
    };
    let here = absolute(Path::new("."))?;
    let clients = if clients.is_empty() { &Client::ALL[..] } else { clients };
    let user = clients.iter().flat_map(|client| client.user_files(Platform::HERE, &folders));
    let project = clients.iter().flat_map(|client| client.project_files(Platform::HERE, &here));
    Ok(user.chain(project).collect())
}

/// The file of a project that several clients read.
fn is_shared(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".mcp.json")
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let resolved = std::path::absolute(path);
    resolved.map_err(|error| Failure::environment(format!("cannot resolve {}: {error}", path.display())))
}

/// The program as a client is to start it: by the name in the user's path that leads to this very file, since that is what stays
/// when Callgate is updated; otherwise by the file itself.
pub(super) fn callgate(environment: &Environment) -> Result<String, Failure> {
    let this = launch::this_program()?;
    let name = this.file_name().unwrap_or_default();
    let same = |path: &PathBuf| path.is_absolute() && path.canonicalize().is_ok_and(|file| file == this);
    let in_path = environment
        .path
        .as_ref()
        .and_then(|folders| std::env::split_paths(folders).map(|folder| folder.join(name)).find(same));
    let program = in_path.unwrap_or(this);
    if !program.exists() {
        return Err(Failure::environment(format!("this program is not at {} any more", program.display()))
            .hint("run the one that is there now"));
    }
    program.into_os_string().into_string().map_err(|program| {
        Failure::environment(format!("the path of this program is not text: {}", program.display()))
            .hint("put it where the path is UTF-8")
    })
}
