//! The contract's types and exports, generated from `wit/`. Nothing is written by hand here.
#![expect(clippy::same_length_and_capacity, reason = "wit-bindgen takes vectors apart and together again")]

wit_bindgen::generate!({
    path: "../wit/0.1.0",
    world: "call-plugin",
    additional_derives: [PartialEq],
    generate_unused_types: true,
    pub_export_macro: true,
    export_macro_name: "export_call_plugin",
    default_bindings_module: "callgate_sdk::bindings",
    runtime_path: "wit_bindgen::rt",
});
