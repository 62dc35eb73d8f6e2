//! The contract's types and the lifting code, generated from `wit/`. Nothing is written by hand here.

wasmtime::component::bindgen!({
    path: "../../wit/0.1.0",
    world: "every-hook",
    // A call is shown to every plugin of the chain: its texts are lent, never copied on the way in.
    ownership: Borrowing { duplicate_if_necessary: false },
});
