//! The manifest: what a component says of itself before any of its code runs. Written as JSON into the custom section
//! `callgate:manifest` while the plugin's crate is compiled; docs/reference/manifest.md is its reference.

/// What the export macro knows of a plugin.
#[derive(Debug)]
pub struct Manifest {
    /// The plugin's own id.
    pub id: &'static str,
    /// The crate's version.
    pub version: &'static str,
    /// The crate's description.
    pub summary: &'static str,
    /// The hooks exported, by their interface's name, as JSON strings with commas between.
    pub hooks: &'static str,
    /// The limits it lowers, as a JSON object.
    pub limits: &'static str,
    /// The JSON Schema of its settings.
    pub settings: &'static str,
}

impl Manifest {
    /// How many bytes the section takes.
    pub const fn bytes(&self) -> usize {
        let mut out = Out::<0> { bytes: [], len: 0 };
        self.write(&mut out);
        out.len
    }

    /// The section's content.
    pub const fn encode<const BYTES: usize>(&self) -> [u8; BYTES] {
        let mut out = Out { bytes: [0; BYTES], len: 0 };
        self.write(&mut out);
        assert!(out.len == BYTES, "encode is given the length that bytes() tells");
        out.bytes
    }

    const fn write<const BYTES: usize>(&self, out: &mut Out<BYTES>) {
        out.raw(r#"{"manifest":1,"id":""#);
        out.escaped(self.id);
        out.raw(r#"","version":""#);
        out.escaped(self.version);
        out.raw(r#"","summary":""#);
        out.escaped(self.summary);
        out.raw(r#"","hooks":["#);
        out.raw(self.hooks);
        out.raw(r#"],"requests":[],"limits":"#);
        out.raw(self.limits);
        out.raw(r#","settings":"#);
        out.raw(self.settings);
        out.raw("}");
    }
}

/// Bytes written so far; with no room at all it only counts.
struct Out<const BYTES: usize> {
    bytes: [u8; BYTES],
    len: usize,
}

impl<const BYTES: usize> Out<BYTES> {
    const fn byte(&mut self, byte: u8) {
        if BYTES > 0 {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
    }

    const fn raw(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            self.byte(text.as_bytes()[at]);
            at += 1;
        }
    }

    /// The inside of a JSON string.
    const fn escaped(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut at = 0;
        while at < text.len() {
            let byte = text.as_bytes()[at];
            match byte {
                b'"' | b'\\' => {
                    self.byte(b'\\');
                    self.byte(byte);
                }
                0..0x20 => {
                    self.raw("\\u00");
                    self.byte(HEX[(byte >> 4) as usize]);
                    self.byte(HEX[(byte & 15) as usize]);
                }
                _ => self.byte(byte),
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: Manifest = Manifest {
        id: "guard",
        version: "1.2.3",
        summary: "says \"no\"\n\\ é",
        hooks: r#""call-policy""#,
        limits: r#"{"fuel":1000}"#,
        settings: r#"{"type":"object"}"#,
    };

    #[test]
    fn a_manifest_is_json_whatever_the_crate_says_of_itself() {
        const SECTION: [u8; MANIFEST.bytes()] = MANIFEST.encode();
        let manifest: serde_json::Value = serde_json::from_slice(&SECTION).unwrap();
        let expected = serde_json::json!({
            "manifest": 1,
            "id": "guard",
            "version": "1.2.3",
            "summary": "says \"no\"\n\\ é",
            "hooks": ["call-policy"],
            "requests": [],
            "limits": {"fuel": 1000},
            "settings": {"type": "object"},
        });
        assert_eq!(manifest, expected);
    }
}
