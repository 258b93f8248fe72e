//! Builds valid and invalid packs: every step from manifest to signature can be changed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use touchstone::kinds::PACK_FORMAT;
use touchstone_kit::integrity;
use touchstone_kit::keys::SecretKey;
use touchstone_openwop::pack::RegistryDiscovery;
use touchstone_packs::rules::Refusal;
use touchstone_packs::rules::lockfile;
use touchstone_packs::rules::name::PackId;
use touchstone_packs::rules::trust::key_ring::KeyRing;
use touchstone_packs::rules::verify::{Fetched, Policy, Trust, VerifiedPack, verify};

/// A change to one step.
type Bend<T> = Option<Box<dyn FnOnce(T) -> T>>;

/// A lockfile for the built pack.
type Lock = Option<Box<dyn FnOnce(&Forged) -> Value>>;

/// One tar entry, field by field.
#[derive(Clone)]
pub struct Entry {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
    pub flag: u8,
    pub link: Vec<u8>,
    pub size_field: Option<Vec<u8>>,
    pub prefix: Vec<u8>,
    pub magic: [u8; 8],
    pub checksum: Option<[u8; 8]>,
    pub padded: bool,
}

impl Entry {
    pub fn file(name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            data: data.as_ref().to_vec(),
            flag: b'0',
            link: Vec::new(),
            size_field: None,
            prefix: Vec::new(),
            magic: *b"ustar\x0000",
            checksum: None,
            padded: true,
        }
    }

    pub fn of(flag: u8, name: &str) -> Self {
        Self {
            flag,
            ..Self::file(name, b"")
        }
    }

    pub fn link(flag: u8, name: &str, to: &str) -> Self {
        Self {
            link: to.as_bytes().to_vec(),
            ..Self::of(flag, name)
        }
    }

    /// An extended (pax) header with these records.
    pub fn pax(flag: u8, records: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (key, value) in records {
            let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
            let mut length = rest.len();
            while length.to_string().len() + rest.len() != length {
                length = length.to_string().len() + rest.len();
            }
            body.extend_from_slice(length.to_string().as_bytes());
            body.extend_from_slice(&rest);
        }
        Self {
            flag,
            ..Self::file("PaxHeaders/0", body)
        }
    }

    pub fn long_name(name: &[u8]) -> Self {
        let data = [name, b"\0"].concat();
        Self {
            flag: b'L',
            magic: *b"ustar  \0",
            ..Self::file("././@LongLink", data)
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut header = [0_u8; 512];
        let mut field =
            |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
        field(0, &self.name);
        field(100, b"0000644\0");
        field(108, b"0000000\0");
        field(116, b"0000000\0");
        let size = format!("{:011o}\0", self.data.len()).into_bytes();
        field(124, self.size_field.as_ref().unwrap_or(&size));
        field(136, b"00000000000\0");
        field(148, b"        ");
        field(156, &[self.flag]);
        field(157, &self.link);
        field(257, &self.magic);
        field(345, &self.prefix);
        let sum: u32 = header.iter().map(|octet| u32::from(*octet)).sum();
        let checksum = format!("{sum:06o}\0 ").into_bytes();
        header[148..156]
            .copy_from_slice(self.checksum.as_ref().map_or(&checksum[..], |own| &own[..]));
        let padding = if self.padded {
            (512 - self.data.len() % 512) % 512
        } else {
            0
        };
        [&header[..], &self.data, &vec![0; padding]].concat()
    }
}

/// The two zero blocks that end an archive.
pub const END: [u8; 1024] = [0; 1024];

pub fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        out.extend_from_slice(&entry.bytes());
    }
    out.extend_from_slice(&END);
    out
}

pub fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut writer = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::fast());
    writer.write_all(octets).unwrap();
    writer.finish().unwrap()
}

pub fn key(id: &str) -> SecretKey {
    let mut seed = [0_u8; 32];
    for (slot, octet) in seed.iter_mut().zip(id.bytes()) {
        *slot = octet;
    }
    SecretKey::from_random(seed)
}

/// The registry of all cases.
pub fn discovery() -> RegistryDiscovery {
    let entry = |id: &str, namespaces: &[&str], status: &str| {
        json!({"keyId": id, "algorithm": "ed25519", "publicKeyUrl": format!("/keys/{id}.pub"),
               "permittedNamespaces": namespaces, "status": status})
    };
    serde_json::from_value(json!({"signingKeys": [
        entry("bench-main", &["community.bench-corpus.*"], "active"),
        entry("bench-other", &["vendor.bench-other.*"], "active"),
        entry("bench-retired", &["community.bench-corpus.*"], "retired"),
        entry("bench-narrow", &["community.bench-corpus.single", "community.bench-corpus.branch.*"], "active"),
    ]}))
    .unwrap()
}

fn trust() -> Trust {
    let mut keys = KeyRing::default();
    keys.list(&discovery());
    for id in [
        "bench-main",
        "bench-other",
        "bench-retired",
        "bench-narrow",
        "bench-unlisted",
    ] {
        keys.supply(id, key(id).public().to_pem().into_bytes());
    }
    Trust {
        keys,
        ..Trust::default()
    }
}

/// A pack under construction. The default is valid.
pub struct Forge {
    pub name: String,
    pub version: String,
    pub manifest: Value,
    pub manifest_text: Bend<Vec<u8>>,
    pub suite: Value,
    pub suite_text: Bend<Vec<u8>>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub entries: Bend<Vec<Entry>>,
    pub tar: Bend<Vec<u8>>,
    pub tgz: Bend<Vec<u8>>,
    pub method: &'static str,
    pub signer: &'static str,
    pub key_id: String,
    /// The signed bytes, given the bytes that should be signed.
    pub signed: Bend<Vec<u8>>,
    pub signature: Bend<Vec<u8>>,
    pub served: Bend<Value>,
    pub lock: Lock,
    pub trust: Trust,
    pub policy: Policy,
}

/// The files that a registry would serve.
pub struct Forged {
    pub id: PackId,
    pub served: Vec<u8>,
    pub tgz: Vec<u8>,
    pub signature: Vec<u8>,
}

pub const PROMPT: &str = "Name the colour of the described thing.\n";

impl Forge {
    pub fn new(name: &str) -> Self {
        let name = format!("community.bench-corpus.{name}");
        let schema = |title: &str, member: &str| {
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "type": "object",
                   "required": [member], "properties": {member: {"type": "string"}}, "additionalProperties": false})
            .to_string()
            .into_bytes()
        };
        let files = [
            ("README.md", b"# Colours\n".to_vec()),
            ("prompts/colour.md", PROMPT.as_bytes().to_vec()),
            ("schemas/in.json", schema("Thing", "thing")),
            ("schemas/out.json", schema("Colour", "colour")),
        ];
        Self {
            manifest: json!({
                "name": name, "version": "1.0.0", "engines": {"openwop": ">=1.0.0 <2.0.0"},
                "agents": [{
                    "agentId": format!("{name}.painter"), "persona": "Painter", "modelClass": "general",
                    "systemPromptRef": "prompts/colour.md", "evalSuiteRef": "evals/colour.json", "toolAllowlist": [],
                    "handoff": {"taskSchemaRef": "schemas/in.json", "returnSchemaRef": "schemas/out.json"},
                }],
                "runtime": {"language": "remote", "entry": "pack.json"},
            }),
            suite: json!({
                "suiteId": "community.bench-corpus.evals.colour", "version": "1.0.0", "modes": ["golden", "rubric"],
                "thresholds": {"passScore": 0.5},
                "tasks": [
                    {"taskId": "sky", "input": {"thing": "sky"},
                     "expected": {"kind": "golden", "match": {"strategy": "json-match", "value": {"colour": "blue"}}}},
                    {"taskId": "grass", "input": {"thing": "grass"},
                     "expected": {"kind": "rubric", "rubric": [{"criterion": "says green", "weight": 1}]},
                     "fixtures": {"toolResponses": [{"tool": "openwop:t", "response": 1}], "memorySeed": [{"k": "v"}]}}
                ]
            }),
            name,
            version: "1.0.0".to_owned(),
            manifest_text: None,
            suite_text: None,
            files: files
                .into_iter()
                .map(|(name, text)| (name.to_owned(), text))
                .collect(),
            entries: None,
            tar: None,
            tgz: None,
            method: "manual",
            signer: "bench-main",
            key_id: "bench-main".to_owned(),
            signed: None,
            signature: None,
            served: None,
            lock: None,
            trust: trust(),
            policy: Policy::default(),
        }
    }

    pub fn agent(&mut self) -> &mut Value {
        &mut self.manifest["agents"][0]
    }

    pub fn bend_entries(&mut self, bend: impl FnOnce(Vec<Entry>) -> Vec<Entry> + 'static) {
        self.entries = Some(Box::new(bend));
    }

    /// Appends entries.
    pub fn add(&mut self, entries: Vec<Entry>) {
        self.bend_entries(move |before| before.into_iter().chain(entries).collect());
    }

    pub fn bend_served(&mut self, bend: impl FnOnce(&mut Value) + 'static) {
        self.served = Some(Box::new(move |mut served| {
            bend(&mut served);
            served
        }));
    }

    fn forge(&mut self) -> Forged {
        let bent = |bend: Bend<Vec<u8>>, octets| {
            bend.map_or_else(|| Vec::clone(&octets), |bend| bend(octets.clone()))
        };
        let signer = key(self.signer);
        if self.method == "manual" && self.manifest.get("signing").is_none() {
            self.manifest["signing"] = json!({
                "method": "manual", "publicKeyRef": self.key_id, "signatureRef": "keys/pack.json.sig"
            });
        }
        let manifest = bent(
            self.manifest_text.take(),
            self.manifest.to_string().into_bytes(),
        );
        let suite = bent(self.suite_text.take(), self.suite.to_string().into_bytes());
        let mut files = self.files.clone();
        files.insert("pack.json".to_owned(), manifest.clone());
        files.entry("evals/colour.json".to_owned()).or_insert(suite);
        let mut signature = Vec::new();
        if self.method == "manual" {
            signature = signer.sign(&bent(self.signed.take(), manifest)).to_vec();
            signature = bent(self.signature.take(), signature);
            files.insert("keys/pack.json.sig".to_owned(), signature.clone());
        }
        // An empty file represents a missing one.
        let entries = files
            .iter()
            .filter(|(_, data)| !data.is_empty())
            .map(|(name, data)| Entry::file(name, data));
        let entries: Vec<Entry> = entries.collect();
        let entries = match self.entries.take() {
            Some(bend) => bend(entries),
            None => entries,
        };
        let archive = bent(self.tar.take(), tar(&entries));
        let tgz = bent(self.tgz.take(), gzip(&archive));
        if self.method == "ed25519" {
            signature = signer.sign(&bent(self.signed.take(), tgz.clone())).to_vec();
            signature = bent(self.signature.take(), signature);
        }
        let mut served = self.manifest.clone();
        served["name"] = self.name.clone().into();
        served["version"] = self.version.clone().into();
        if self.method == "ed25519" {
            served["signing"] = json!({"method": "ed25519", "keyId": self.key_id});
        }
        served["integrity"] = integrity::of(&tgz).into();
        if let Some(bend) = self.served.take() {
            served = bend(served);
        }
        let id = PackId::new(&self.name, &self.version).unwrap();
        Forged {
            id,
            served: served.to_string().into_bytes(),
            tgz,
            signature,
        }
    }

    /// Builds and verifies the pack; also returns how long verification took.
    pub fn judge(mut self) -> (Result<VerifiedPack, Refusal>, Duration) {
        let forged = self.forge();
        let lock = self.lock.map(|lock| lock(&forged).to_string());
        let lock = lock.map(|text| lockfile::parse(text.as_bytes()).unwrap());
        let fetched = Fetched {
            served: Some(&forged.served),
            tgz: &forged.tgz,
            signature: Some(&forged.signature),
        };
        let started = Instant::now();
        let outcome = verify(
            Some(&forged.id),
            fetched,
            &self.trust,
            &self.policy,
            lock.as_ref(),
            PACK_FORMAT,
        );
        (outcome, started.elapsed())
    }
}
