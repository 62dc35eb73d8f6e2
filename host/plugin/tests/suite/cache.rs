//! Compiled components on disk: found again, never trusted further than they can be checked.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callgate_core::verdict::Answer;
use callgate_plugin::{Cache, CacheError, Engine, Limits, Origin};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use crate::fixture::{Guest, KEPT, Log, allow, call, deny};

fn private_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn open(folder: &Path) -> Result<Cache, CacheError> {
    Cache::open(Dir::open_ambient_dir(folder, ambient_authority()).unwrap())
}

/// Loads with a new engine, as a new process does, and asks it once.
fn load(folder: &Path, limits: Limits, guest: &Guest) -> (Origin, Answer) {
    let engine = Engine::new(limits, Some(open(folder).unwrap()), Arc::new(Log::default())).unwrap();
    let plugin = engine.load(&guest.build()).unwrap();
    let answer = plugin.configure("guard", "{}", KEPT).unwrap().decide(&call("read_file")).unwrap();
    (plugin.origin().clone(), answer)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_second_load_compiles_nothing() {
    let folder = private_folder();
    let guest = Guest::answering(&allow());
    assert_eq!(load(folder.path(), Limits::SHIPPED, &guest), (Origin::Compiled, allow()));
    assert_eq!(load(folder.path(), Limits::SHIPPED, &guest), (Origin::Cached, allow()));
    let files = files(folder.path());
    assert_eq!(files.len(), 1);
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_changed_component_is_another_one() {
    let folder = private_folder();
    let (one, other) = (Guest::answering(&allow()), Guest::answering(&deny("closed")));
    assert_eq!(load(folder.path(), Limits::SHIPPED, &one), (Origin::Compiled, allow()));
    assert_eq!(load(folder.path(), Limits::SHIPPED, &other), (Origin::Compiled, deny("closed")));
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn a_file_that_is_not_as_it_was_written_is_compiled_anew() {
    let folder = private_folder();
    let guest = Guest::answering(&allow());
    load(folder.path(), Limits::SHIPPED, &guest);
    let file = files(folder.path()).remove(0);
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut longer = good.clone();
    longer.push(0);
    let bad =
        [Vec::new(), b"x".to_vec(), good[..good.len() - 1].to_vec(), good[..good.len() / 2].to_vec(), flipped, longer];
    for bytes in bad {
        fs::write(&file, bytes).unwrap();
        assert_eq!(load(folder.path(), Limits::SHIPPED, &guest), (Origin::Compiled, allow()));
        assert_eq!(fs::read(&file).unwrap(), good, "it was not mended");
    }
}

#[test]
fn a_file_under_another_components_name_is_compiled_anew() {
    let folder = private_folder();
    let (one, other) = (Guest::answering(&allow()), Guest::answering(&deny("closed")));
    load(folder.path(), Limits::SHIPPED, &one);
    let file_of_one = files(folder.path()).remove(0);
    load(folder.path(), Limits::SHIPPED, &other);
    let file_of_other = files(folder.path()).into_iter().find(|file| *file != file_of_one).unwrap();
    fs::copy(&file_of_other, &file_of_one).unwrap();
    assert_eq!(load(folder.path(), Limits::SHIPPED, &one), (Origin::Compiled, allow()));
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_and_nothing_else() {
    let folder = private_folder();
    let guest = Guest::answering(&allow());
    load(folder.path(), Limits::SHIPPED, &guest);
    let file = files(folder.path()).remove(0);
    fs::remove_file(&file).unwrap();
    // A folder that is not empty cannot be replaced by a file, not even by root.
    fs::create_dir_all(file.join("in the way")).unwrap();
    let (origin, answer) = load(folder.path(), Limits::SHIPPED, &guest);
    assert!(matches!(origin, Origin::CompiledOnly(Some(_))), "{origin:?}");
    assert_eq!(answer, allow());
    assert_eq!(files(folder.path()), [file], "a temporary file was left");
}

#[test]
fn a_cache_does_not_follow_a_link_out_of_its_folder() {
    let (folder, elsewhere) = (private_folder(), private_folder());
    let guest = Guest::answering(&allow());
    load(folder.path(), Limits::SHIPPED, &guest);
    let file = files(folder.path()).remove(0);
    let moved = elsewhere.path().join("moved");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    assert_eq!(load(folder.path(), Limits::SHIPPED, &guest), (Origin::Compiled, allow()));
}

#[test]
fn a_folder_that_others_can_enter_is_not_used() {
    let folder = private_folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).unwrap();
    let refusal = open(folder.path()).unwrap_err();
    let CacheError::NotPrivate { owner, .. } = refusal else { panic!("{refusal:?}") };
    let expected = format!(
        "the folder for compiled plugins has mode 750 and owner {owner}; it has to be private (700) and owned by {owner}"
    );
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn old_files_and_those_of_dead_processes_go() {
    let folder = private_folder();
    for index in 0..70 {
        fs::write(folder.path().join(format!("{index:02}.cwasm")), b"old").unwrap();
    }
    fs::write(folder.path().join("1-0.tmp"), b"left by a process that died").unwrap();
    let guest = Guest::answering(&allow());
    load(folder.path(), Limits::SHIPPED, &guest);
    let left = files(folder.path());
    assert_eq!(left.len(), 64);
    assert!(left.iter().all(|file| file.extension().is_some_and(|extension| extension == "cwasm")), "{left:?}");
    assert_eq!(load(folder.path(), Limits::SHIPPED, &guest).0, Origin::Cached, "the newest went");
}
