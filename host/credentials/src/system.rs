//! The operating system's store of the user. On Linux the Secret Service, over the session bus.

use callgate_core::secret::Secret;

use crate::{SecretStore, Trouble};

/// The system's store. Opened when it is first needed, and anew after it failed: a daemon may be there before the session bus.
#[derive(Default)]
pub struct SystemStore(implementation::Store);

impl SecretStore for SystemStore {
    fn read(&mut self, name: &str) -> Result<Option<Secret>, Trouble> {
        self.0.read(name)
    }

    fn write(&mut self, name: &str, secret: &Secret) -> Result<(), Trouble> {
        self.0.write(name, secret)
    }

    fn check(&mut self) -> Result<(), Trouble> {
        self.0.check()
    }

    fn remove(&mut self, name: &str) -> Result<(), Trouble> {
        self.0.remove(name)
    }
}

#[cfg(target_os = "linux")]
mod implementation {
    use std::sync::Arc;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use callgate_core::secret::Secret;
    use keyring_core::api::CredentialStoreApi;
    use keyring_core::{Entry, Error};
    use secret_service::EncryptionType;
    use secret_service::blocking::SecretService as SecretServiceBlocking;
    use zbus_secret_service_keyring_store::Store as SecretService;
    use zeroize::Zeroizing;

    use crate::Trouble;

    /// What our items are found by, with their names.
    const SERVICE: &str = "callgate";

    #[derive(Default)]
    pub(super) struct Store {
        open: Option<Arc<SecretService>>,
    }

    impl Store {
        pub(super) fn read(&mut self, name: &str) -> Result<Option<Secret>, Trouble> {
            self.with(name, |entry| match entry.get_secret() {
                Ok(stored) => Ok(Some(Zeroizing::new(stored))),
                Err(Error::NoEntry) => Ok(None),
                Err(error) => Err(error),
            })?
            .map(|stored| decoded(&stored))
            .transpose()
        }

        pub(super) fn write(&mut self, name: &str, secret: &Secret) -> Result<(), Trouble> {
            // Some stores take text only.
            let text = Zeroizing::new(STANDARD.encode(secret.expose()));
            self.with(name, |entry| entry.set_secret(text.as_bytes()))
        }

        /// On a connection of its own: the store crate offers nothing that tells of a lock without asking for the password.
        #[expect(clippy::unused_self, reason = "the store of another system needs it")]
        pub(super) fn check(&mut self) -> Result<(), Trouble> {
            let locked = || -> Result<bool, secret_service::Error> {
                let service = SecretServiceBlocking::connect(EncryptionType::Plain)?;
                service.get_default_collection()?.is_locked()
            };
            match locked() {
                Ok(false) => Ok(()),
                Ok(true) => Err(Trouble::Locked),
                Err(error) => Err(service(&error)),
            }
        }

        pub(super) fn remove(&mut self, name: &str) -> Result<(), Trouble> {
            self.with(name, |entry| match entry.delete_credential() {
                Ok(()) | Err(Error::NoEntry) => Ok(()),
                Err(error) => Err(error),
            })
        }

        /// Does something with an entry. A connection that was there before may be of a bus that is no more: then once again
        /// with a new one.
        fn with<T>(&mut self, name: &str, act: impl Fn(&Entry) -> Result<T, Error>) -> Result<T, Trouble> {
            let was_open = self.open.is_some();
            match self.try_with(name, &act) {
                Err(_) if was_open && self.open.is_none() => self.try_with(name, &act),
                result => result,
            }
        }

        fn try_with<T>(&mut self, name: &str, act: &impl Fn(&Entry) -> Result<T, Error>) -> Result<T, Trouble> {
            let store = match &self.open {
                Some(store) => Arc::clone(store),
                None => Arc::clone(self.open.insert(SecretService::new().map_err(|error| told(&error))?)),
            };
            let result = store.build(SERVICE, name, None).and_then(|entry| act(&entry));
            result.map_err(|error| {
                let trouble = told(&error);
                if trouble != Trouble::Locked {
                    self.open = None;
                }
                trouble
            })
        }
    }

    fn decoded(stored: &[u8]) -> Result<Secret, Trouble> {
        let bytes = STANDARD.decode(stored);
        // The error would repeat a part of what it could not read.
        bytes.map(Secret::new).map_err(|_| Trouble::Failed("the item is not one that callgate wrote".to_owned()))
    }

    /// What an error of the store means. Its own text is never told where it may hold what was stored.
    fn told(error: &Error) -> Trouble {
        match error {
            Error::NoStorageAccess(_) => Trouble::Locked,
            Error::PlatformFailure(cause) => match cause.downcast_ref::<secret_service::Error>() {
                Some(cause) => service(cause),
                None => Trouble::Failed(cause.to_string()),
            },
            Error::BadEncoding(_) | Error::BadDataFormat(..) | Error::BadStoreFormat(_) => {
                Trouble::Failed("the item is not one that callgate wrote".to_owned())
            }
            Error::Ambiguous(_) => Trouble::Failed("there are several items of this name".to_owned()),
            Error::TooLong(_, most) => Trouble::Failed(format!("it takes no secret longer than {most} bytes")),
            other => Trouble::Failed(other.to_string()),
        }
    }

    fn service(error: &secret_service::Error) -> Trouble {
        match error {
            secret_service::Error::Locked | secret_service::Error::Prompt | secret_service::Error::NoResult => {
                Trouble::Locked
            }
            secret_service::Error::Unavailable => Trouble::NoBus,
            secret_service::Error::Zbus(error) => bus(error),
            secret_service::Error::ZbusFdo(error) => standard(error),
            other => Trouble::Failed(other.to_string()),
        }
    }

    fn bus(error: &zbus::Error) -> Trouble {
        match error {
            zbus::Error::Connection(..) | zbus::Error::InputOutput(_) | zbus::Error::Address(_) => Trouble::NoBus,
            zbus::Error::FDO(error) => standard(error),
            zbus::Error::MethodError(name, detail, _) => method(name.as_str(), detail.as_deref()),
            other => Trouble::Failed(other.to_string()),
        }
    }

    fn standard(error: &zbus::fdo::Error) -> Trouble {
        match error {
            zbus::fdo::Error::ServiceUnknown(_)
            | zbus::fdo::Error::NameHasNoOwner(_)
            | zbus::fdo::Error::SpawnExecFailed(_)
            | zbus::fdo::Error::SpawnServiceNotFound(_) => Trouble::NoDaemon,
            zbus::fdo::Error::AccessDenied(why) | zbus::fdo::Error::AuthFailed(why) => Trouble::Denied(why.clone()),
            zbus::fdo::Error::NoReply(_) | zbus::fdo::Error::Timeout(_) | zbus::fdo::Error::TimedOut(_) => {
                Trouble::Hangs
            }
            zbus::fdo::Error::ZBus(error) => bus(error),
            other => Trouble::Failed(other.to_string()),
        }
    }

    fn method(name: &str, detail: Option<&str>) -> Trouble {
        match name {
            "org.freedesktop.Secret.Error.IsLocked" => Trouble::Locked,
            "org.freedesktop.DBus.Error.ServiceUnknown" | "org.freedesktop.DBus.Error.NameHasNoOwner" => {
                Trouble::NoDaemon
            }
            name if name.starts_with("org.freedesktop.DBus.Error.Spawn.") => Trouble::NoDaemon,
            "org.freedesktop.DBus.Error.AccessDenied" => Trouble::Denied(detail.unwrap_or(name).to_owned()),
            "org.freedesktop.DBus.Error.NoReply" => Trouble::Hangs,
            name => Trouble::Failed(detail.unwrap_or(name).to_owned()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod implementation {
    use callgate_core::secret::Secret;

    use crate::Trouble;

    /// None is known here yet.
    #[derive(Default)]
    pub(super) struct Store;

    impl Store {
        pub(super) fn read(&mut self, _name: &str) -> Result<Option<Secret>, Trouble> {
            Err(Trouble::Unsupported)
        }

        pub(super) fn write(&mut self, _name: &str, _secret: &Secret) -> Result<(), Trouble> {
            Err(Trouble::Unsupported)
        }

        pub(super) fn check(&mut self) -> Result<(), Trouble> {
            Err(Trouble::Unsupported)
        }

        pub(super) fn remove(&mut self, _name: &str) -> Result<(), Trouble> {
            Err(Trouble::Unsupported)
        }
    }
}
