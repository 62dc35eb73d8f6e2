//! The one macro that makes a crate a plugin.

/// Exports a [`Policy`](crate::Policy) as a plugin, with its manifest. Once in a crate, at its root.
///
/// The crate has to be a `cdylib` (and an `rlib`, so that its tests can use it). The manifest takes the version and the
/// summary from the crate's Cargo.toml. `id` is what the plugin is called unless the operator names it otherwise;
/// `settings` is the path, from the crate's folder, of the JSON Schema of the settings; `limits`, optional, lowers the
/// host's limits for this plugin, as a JSON object.
///
/// ```ignore
/// callgate_sdk::export! {
///     policy: OneServer,
///     id: "one-server",
///     settings: "settings.schema.json",
///     limits: r#"{"fuel": 1000000}"#,
/// }
/// ```
///
/// Natively it expands to nothing that runs: a policy is tested through [`testing`](crate::testing).
#[macro_export]
macro_rules! export {
    (policy: $policy:ty, id: $id:expr, settings: $settings:expr $(, limits: $limits:expr)? $(,)?) => {
        const _: () = {
            const MANIFEST: $crate::manifest::Manifest = $crate::manifest::Manifest {
                id: $id,
                version: env!("CARGO_PKG_VERSION"),
                summary: env!("CARGO_PKG_DESCRIPTION"),
                hooks: "\"call-policy\"",
                limits: $crate::export!(@or "{}" $(, $limits)?),
                settings: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $settings)),
            };
            const MANIFEST_BYTES: usize = MANIFEST.bytes();

            static SLOT: $crate::guest::Slot<$policy> = $crate::guest::Slot::new();

            #[cfg(target_arch = "wasm32")]
            #[unsafe(link_section = "callgate:manifest")]
            #[used]
            static SECTION: [u8; MANIFEST_BYTES] = MANIFEST.encode();

            struct Plugin;

            impl $crate::bindings::exports::callgate::policy::lifecycle::Guest for Plugin {
                fn configure(settings: String) -> Result<Vec<$crate::SettingsWarning>, Vec<$crate::SettingsError>> {
                    SLOT.configure(&settings)
                }
            }

            impl $crate::bindings::exports::callgate::policy::call_policy::Guest for Plugin {
                fn decide(
                    call: $crate::bindings::callgate::policy::types::Call,
                ) -> $crate::bindings::callgate::policy::types::Decision {
                    SLOT.decide(call)
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::export_call_plugin!(Plugin with_types_in $crate::bindings);
        };
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}
