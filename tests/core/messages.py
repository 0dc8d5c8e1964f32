"""A protobuf message class, as protoc would make it."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_Field = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto2")
    message = file.message_type.add(name="Paid")
    message.field.add(
        name="order_id", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_REQUIRED
    )
    message.field.add(name="cents", number=2, type=_Field.TYPE_INT64, label=_Field.LABEL_OPTIONAL)
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())
Paid: type[Message] = message_factory.GetMessageClass(_pool.FindMessageTypeByName("shop.Paid"))
"""`message Paid { required string order_id = 1; optional int64 cents = 2; }`"""
