//! Snapshots that are restored into an engine.
//!
//! The input is a list of patches to the frames of a snapshot of the sample collection, each a frame, what of it, a place, a length, and so
//! many bytes. Past the checksums: bodies that are envelopes are sealed, a manifest that isn't patched says what its files look like
//! now, and heads are made anew for their bodies. An input that begins with a snapshot's magic number is one as it is; the checksums of
//! its heads and bodies are made right, as far as its lengths lead.

use std::sync::OnceLock;

use ramlet::{Engine, SnapshotScope};
use ramlet_format::manifest::Manifest;
use ramlet_format::snapshot::{Contents, FRAME_BYTES, Frame, FrameKind, HEADER_BYTES, Header};

use crate::checksum::crc_of;
use crate::directory::seal_envelope;
use crate::input::Input;
use crate::sample::{self, NAME};
use crate::{Seed, TARGETS};

const MAGIC: &[u8] = b"RAMLETSN";
const PATCHES_MAX: usize = 8;
const NOW: u64 = 1_700_000_000;
/// Of the collection that is made of a snapshot.
const RESTORED: &str = "restored";

pub fn run(bytes: &[u8]) {
    let (snapshot, sound) = match bytes.starts_with(MAGIC) {
        true => (sealed(bytes), false),
        false => patched(bytes),
    };
    heads(&snapshot);
    let engine = sample::open(sample::ram()).expect("an empty directory");
    let restored = restore(&engine, &snapshot);
    assert!(!sound || restored.is_ok(), "{restored:?}");
    match engine.collection(RESTORED) {
        Ok(collection) => {
            let mut scratch = engine.scratch().expect("nothing else runs");
            let read = sample::read(&engine, &collection, &mut scratch);
            assert!(!sound || read.is_ok(), "{read:?}");
        }
        Err(e) => assert!(restored.is_err(), "{e}"),
    }
    engine.close();
}

fn restore(engine: &Engine, snapshot: &[u8]) -> ramlet::Result<()> {
    let mut upload = engine.begin_snapshot_upload()?;
    upload.append(snapshot)?;
    engine.recover_upload(RESTORED, upload, None)
}

/// Heads are what they are encoded to.
fn heads(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    for (at, number) in (HEADER_BYTES..bytes.len()).step_by(FRAME_BYTES).zip(0..4) {
        if let Ok(frame) = Frame::decode(&bytes[at..], number) {
            assert_eq!(Frame::decode(&frame.encode(number), number), Ok(frame));
        }
    }
}

/// Frames of a sound snapshot.
fn frames() -> &'static [(FrameKind, Vec<u8>)] {
    static FRAMES: OnceLock<Vec<(FrameKind, Vec<u8>)>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let engine = sample::open(sample::ram()).expect("opens");
        sample::fill(&engine);
        let scope = SnapshotScope::Collection(NAME);
        let taken = engine.create_snapshot(scope, NOW).expect("takes one");
        let file = engine.open_snapshot(scope, &taken.name).expect("is there");
        let mut bytes = vec![0; file.bytes() as usize];
        file.read_at(&mut bytes, 0).expect("reads");
        engine.close();
        let (mut frames, mut at) = (Vec::new(), HEADER_BYTES);
        loop {
            let frame = Frame::decode(&bytes[at..], frames.len() as u32).expect("sound");
            let body = at + FRAME_BYTES..at + FRAME_BYTES + frame.bytes as usize;
            at = body.end;
            frames.push((frame.kind, bytes[body].to_vec()));
            if frame.kind == FrameKind::End {
                return frames;
            }
        }
    })
}

/// A snapshot with its patches, and whether there are none.
fn patched(bytes: &[u8]) -> (Vec<u8>, bool) {
    let (mut input, mut patched) = (Input(bytes), frames().to_vec());
    for _ in 0..PATCHES_MAX {
        if input.0.is_empty() {
            break;
        }
        let number = input.below(patched.len());
        let at = usize::from(input.u16()) | usize::from(input.byte()) << 16;
        let length = input.below(16) + 1;
        let new = input.take(length);
        let body = &mut patched[number].1;
        if body.is_empty() {
            // An empty frame that isn't, or one too few.
            body.extend_from_slice(new);
            continue;
        }
        let at = at % body.len();
        body[at..]
            .iter_mut()
            .zip(new)
            .for_each(|(byte, new)| *byte = *new);
    }
    let sound = patched == frames();
    for (_, body) in patched
        .iter_mut()
        .filter(|(_, body)| body.starts_with(b"RAMLETEN"))
    {
        seal_envelope(body);
    }
    tell_manifest(&mut patched);
    (written(&patched), sound)
}

fn tell_manifest(patched: &mut [(FrameKind, Vec<u8>)]) {
    let is_list = |(kind, _): &(FrameKind, Vec<u8>)| *kind == FrameKind::Collection;
    let Some(place) = patched.iter().position(is_list) else {
        return;
    };
    if patched[place] != frames()[place] {
        return;
    }
    let mut manifest = Manifest::decode(&patched[place].1).expect("a sound one");
    let files = patched.iter().filter(|(kind, _)| *kind == FrameKind::File);
    let mut crcs = files.map(|(_, body)| crc_of(body));
    for segment in &mut manifest.segments {
        for file in segment.files.iter_mut().chain(&mut segment.deletes) {
            file.crc = crcs.next().unwrap_or(file.crc);
        }
    }
    drop(crcs);
    patched[place].1 = manifest.encode();
}

fn written(frames: &[(FrameKind, Vec<u8>)]) -> Vec<u8> {
    let header = Header {
        contents: Contents::Collection,
        created: Some(NOW),
    };
    let mut out = header.encode().to_vec();
    for ((kind, body), number) in frames.iter().zip(0..) {
        out.extend_from_slice(&Frame::of(*kind, body).encode(number));
        out.extend_from_slice(body);
    }
    out
}

/// The same bytes with right checksums.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if out.len() < HEADER_BYTES {
        return out;
    }
    let head = [&out[8..12], &out[16..HEADER_BYTES]].concat();
    out[12..16].copy_from_slice(&crc_of(&head).to_le_bytes());
    let mut at = HEADER_BYTES;
    while let Some(head) = out.get_mut(at..at + FRAME_BYTES) {
        let length = u64::from_le_bytes(head[16..24].try_into().expect("eight bytes"));
        let body = at + FRAME_BYTES;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| body.checked_add(length));
        let crc = end.and_then(|end| Some(crc_of(out.get(body..end)?)));
        let Some((end, crc)) = end.zip(crc) else {
            return out;
        };
        out[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
        let crc = crc_of(&out[at + 4..body]);
        out[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
    out
}

pub fn seeds() -> Vec<Seed> {
    let manifest = TARGETS
        .iter()
        .find(|target| target.name == "manifest")
        .map(|target| (target.seeds)().remove(0).1)
        .expect("there is one");
    let list = ramlet_format::envelope::encode(ramlet_format::envelope::EnvelopeKind::Manifest, &manifest);
    let small = written(&[
        (FrameKind::Collection, list),
        (FrameKind::Changes, vec![1; 12]),
        (FrameKind::Finished, Vec::new()),
        (FrameKind::End, Vec::new()),
    ]);
    vec![
        ("none", Vec::new()),
        ("one-patch", vec![3, 40, 0, 0, 3, 1, 2, 3, 4]),
        ("changes", vec![1, 13, 0, 0, 3, 9, 0, 0, 0]),
        ("frames", small),
    ]
}
