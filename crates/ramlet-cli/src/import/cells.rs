//! Rows of Arrow's columns as JSON.

use anyhow::{Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowTemporalType, Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch, StructArray};
use arrow_schema::{DataType, TimeUnit};

use super::json::write_string;

/// Whether cells of this type can be written.
pub fn is_known(kind: &DataType) -> bool {
    match kind {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            is_known(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] => is_text(key.data_type()) && is_known(value.data_type()),
                _ => false,
            },
            _ => false,
        },
        DataType::Dictionary(_, values) => is_known(values),
        DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(UUID_BYTES) => true,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Decimal128(..) => true,
        kind => is_text(kind) || kind.is_integer() || kind.is_floating(),
    }
}

/// So many bytes are a UUID, as which Parquet and others store them.
const UUID_BYTES: i32 = 16;

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A column of the type Null has no bits for what is null.
fn is_null(column: &dyn Array, row: usize) -> bool {
    column.is_null(row) || column.data_type() == &DataType::Null
}

/// Appends a row as an object of the columns `wanted`; what is null is left out.
pub fn write_row(batch: &RecordBatch, wanted: &[usize], row: usize, out: &mut Vec<u8>) -> Result<()> {
    let schema = batch.schema_ref();
    let columns = wanted
        .iter()
        .map(|at| (schema.field(*at).name().as_str(), batch.column(*at).as_ref()));
    write_object(columns, row, out)
}

fn write_object<'a>(
    columns: impl Iterator<Item = (&'a str, &'a dyn Array)>,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let filled = columns.filter(|(_, column)| !is_null(*column, row));
    out.push(b'{');
    for (at, (name, column)) in filled.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        write_cell(column, row, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_cell(column: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<()> {
    if is_null(column, row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match column.data_type() {
        DataType::Boolean => write(column.as_boolean().value(row), out),
        DataType::Int8 => write(value::<Int8Type>(column, row), out),
        DataType::Int16 => write(value::<Int16Type>(column, row), out),
        DataType::Int32 => write(value::<Int32Type>(column, row), out),
        DataType::Int64 => write(value::<Int64Type>(column, row), out),
        DataType::UInt8 => write(value::<UInt8Type>(column, row), out),
        DataType::UInt16 => write(value::<UInt16Type>(column, row), out),
        DataType::UInt32 => write(value::<UInt32Type>(column, row), out),
        DataType::UInt64 => write(value::<UInt64Type>(column, row), out),
        // What isn't finite is null in JSON, as it is in tables of pandas.
        DataType::Float16 => write(f32::from(value::<Float16Type>(column, row)), out),
        DataType::Float32 => write(value::<Float32Type>(column, row), out),
        DataType::Float64 => write(value::<Float64Type>(column, row), out),
        DataType::Decimal128(..) => {
            let text = column.as_primitive::<Decimal128Type>().value_as_string(row);
            out.extend_from_slice(text.as_bytes());
        }
        DataType::Utf8 => write_string(column.as_string::<i32>().value(row), out),
        DataType::LargeUtf8 => write_string(column.as_string::<i64>().value(row), out),
        DataType::Utf8View => write_string(column.as_string_view().value(row), out),
        DataType::Date32 => write_date::<Date32Type>(column, row, out),
        DataType::Date64 => write_date::<Date64Type>(column, row, out),
        DataType::Timestamp(unit, _) => write_time(column, *unit, row, out),
        DataType::List(_) => return write_list(column.as_list::<i32>().value(row).as_ref(), out),
        DataType::LargeList(_) => return write_list(column.as_list::<i64>().value(row).as_ref(), out),
        DataType::FixedSizeList(..) => {
            return write_list(column.as_fixed_size_list().value(row).as_ref(), out);
        }
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns().iter().map(AsRef::as_ref);
            return write_object(
                fields.iter().map(|field| field.name().as_str()).zip(columns),
                row,
                out,
            );
        }
        DataType::Map(..) => return write_map(&column.as_map().value(row), out),
        DataType::FixedSizeBinary(UUID_BYTES) => {
            write_uuid(column.as_fixed_size_binary().value(row), out);
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            return write_cell(dictionary.values().as_ref(), key, out);
        }
        other => bail!("a cell of type {other}, which JSON doesn't have"),
    }
    Ok(())
}

fn value<T: ArrowPrimitiveType>(column: &dyn Array, row: usize) -> T::Native {
    column.as_primitive::<T>().value(row)
}

fn write(value: impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &value).expect("a number into memory");
}

fn write_list(items: &dyn Array, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'[');
    for row in 0..items.len() {
        if row > 0 {
            out.push(b',');
        }
        write_cell(items, row, out)?;
    }
    out.push(b']');
    Ok(())
}

/// Keys are texts; each is an object's.
fn write_map(entries: &StructArray, out: &mut Vec<u8>) -> Result<()> {
    let (keys, values) = (entries.column(0), entries.column(1));
    out.push(b'{');
    for row in 0..entries.len() {
        if row > 0 {
            out.push(b',');
        }
        write_cell(keys.as_ref(), row, out)?;
        out.push(b':');
        write_cell(values.as_ref(), row, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// As RFC 9562 writes it.
fn write_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    out.push(b'"');
}

fn write_date<T: ArrowTemporalType>(column: &dyn Array, row: usize, out: &mut Vec<u8>)
where
    i64: From<T::Native>,
{
    let day = as_datetime::<T>(i64::from(value::<T>(column, row)));
    write(day.map(|day| day.date().to_string()), out);
}

/// As RFC 3339 in UTC, which datetime indexes take. A time out of the calendar is null.
fn write_time(column: &dyn Array, unit: TimeUnit, row: usize, out: &mut Vec<u8>) {
    let time = match unit {
        TimeUnit::Second => as_datetime::<TimestampSecondType>(value::<TimestampSecondType>(column, row)),
        TimeUnit::Millisecond => {
            as_datetime::<TimestampMillisecondType>(value::<TimestampMillisecondType>(column, row))
        }
        TimeUnit::Microsecond => {
            as_datetime::<TimestampMicrosecondType>(value::<TimestampMicrosecondType>(column, row))
        }
        TimeUnit::Nanosecond => {
            as_datetime::<TimestampNanosecondType>(value::<TimestampNanosecondType>(column, row))
        }
    };
    write(
        time.map(|time| format!("{}Z", time.format("%Y-%m-%dT%H:%M:%S%.f"))),
        out,
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
    use arrow_array::{ArrayRef, FixedSizeBinaryArray, Int64Array, NullArray};

    use super::*;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> Vec<String> {
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let schema = batch.schema();
        assert!(schema.fields().iter().all(|field| is_known(field.data_type())));
        let wanted: Vec<usize> = (0..batch.num_columns()).collect();
        let row = |row: usize| {
            let mut out = Vec::new();
            write_row(&batch, &wanted, row, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        (0..batch.num_rows()).map(row).collect()
    }

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let nothing: ArrayRef = Arc::new(NullArray::new(2));
        assert_eq!(
            rows(vec![("n", numbers), ("x", nothing)]),
            [r#"{"n":1}"#, r#"{"n":2}"#]
        );
    }

    #[test]
    fn maps_are_objects_and_sixteen_bytes_a_uuid() {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("a");
        map.values().append_value(1);
        map.keys().append_value("b\"");
        map.values().append_null();
        map.append(true).expect("a map");
        map.append(false).expect("no map");
        let bytes: Vec<u8> = (0..32).collect();
        let uuids = FixedSizeBinaryArray::try_from_iter(bytes.chunks(16)).expect("two");
        let (map, uuids): (ArrayRef, ArrayRef) = (Arc::new(map.finish()), Arc::new(uuids));
        assert_eq!(
            rows(vec![("id", uuids), ("m", map)]),
            [
                r#"{"id":"00010203-0405-0607-0809-0a0b0c0d0e0f","m":{"a":1,"b\"":null}}"#,
                r#"{"id":"10111213-1415-1617-1819-1a1b1c1d1e1f"}"#,
            ]
        );
    }
}
