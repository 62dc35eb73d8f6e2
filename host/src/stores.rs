//! The stores of secrets of a home. The daemon is the one that reads and writes them; `doctor` looks at them where none runs.

use callgate_core::server::StoreKind;
use callgate_credentials::Stores;
use callgate_ipc::servers::{StoreState, StoreStates};

use crate::environment::Environment;
use crate::failure::Failure;
use crate::home::Home;

/// The name of the systemd credential that is the sealed file's key.
const SEALED_FILE_KEY: &str = "callgate-key";

/// The stores, unopened.
pub(crate) fn of(home: &Home, environment: &Environment) -> Result<Stores, Failure> {
    let key = environment.credentials_directory.as_ref().map(|folder| folder.join(SEALED_FILE_KEY));
    Stores::new(home.sealed_file(), key)
        .map_err(|error| Failure::environment(format!("cannot start a thread for the secret store: {error}")))
}

/// How they are.
pub(crate) fn states(stores: &Stores) -> StoreStates {
    let state = |store| match stores.check(store) {
        Ok(()) => StoreState { store, state: "ok".to_owned(), problem: None, hint: None },
        Err(trouble) => StoreState {
            store,
            state: trouble.word().to_owned(),
            problem: Some(trouble.to_string()),
            hint: Some(trouble.hint().to_owned()),
        },
    };
    StoreStates { in_use: stores.in_use(), stores: [StoreKind::System, StoreKind::SealedFile].map(state).into() }
}
