//! Rows of Arrow's columns as JSON.

use anyhow::{Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowTemporalType, Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use super::json::write_string;

/// Whether cells of this type can be written.
pub fn is_known(kind: &DataType) -> bool {
    match kind {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            is_known(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        DataType::Dictionary(_, values) => is_known(values),
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            true
        }
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Decimal128(..) => true,
        kind => kind.is_integer() || kind.is_floating(),
    }
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
    let filled = columns.filter(|(_, column)| !column.is_null(row));
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
    if column.is_null(row) {
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
