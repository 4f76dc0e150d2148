//! Where a collection's bytes are: the tree behind `/collections/{name}/memory`.

use crate::read::info::ComponentMemory;
use crate::read::view::View;
use crate::segment::CachedFile;

/// Bytes of everything in a view, summed by component over its segments.
pub fn of(view: &View) -> Vec<ComponentMemory> {
    let mut out: Vec<ComponentMemory> = Vec::new();
    let mut add = |component: String, kind: &'static str, heap: u64, pinned: u64, disk: u64| match out
        .iter_mut()
        .find(|c| c.component == component && c.kind == kind)
    {
        Some(c) => {
            c.heap_bytes += heap;
            c.pinned_bytes += pinned;
            c.disk_bytes += disk;
        }
        None => out.push(ComponentMemory {
            component,
            kind,
            heap_bytes: heap,
            pinned_bytes: pinned,
            disk_bytes: disk,
        }),
    };
    for memtable in &view.memtables {
        add("write buffer".into(), "buffer", memtable.memtable.bytes(), 0, 0);
    }
    for view_of in &view.segments {
        let segment = &view_of.segment;
        for column in segment.columns() {
            let name = view
                .schema
                .vectors
                .iter()
                .find(|v| v.slot == column.slot)
                .map_or("", |v| v.name.as_str());
            let memory = column.index.memory();
            let codes: u64 = column.cached_files().map(CachedFile::bytes).sum();
            add(
                format!("vector `{name}`"),
                column.index.kind(),
                memory.heap_bytes,
                memory.pinned_bytes.saturating_sub(codes),
                segment.vector_disk_bytes(column.slot),
            );
            for cached in column.cached_files() {
                add(format!("vector `{name}`"), cached.kind(), 0, cached.bytes(), 0);
            }
        }
        for (name, kind, heap, pinned, disk) in segment.tables(&view.schema) {
            add(name, kind, heap, pinned, disk);
        }
    }
    out
}
